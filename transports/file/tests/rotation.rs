//! When a file is complete, and what a check says of the folder.

use std::fs;
use std::time::Duration;

use postroom_conformance::changed;
use postroom_conformance::transports::until;
use postroom_core::Level;
use postroom_file::{FileOptions, Fsync};

use crate::folder::{Folder, event, post, transport};

#[tokio::test]
async fn a_file_has_a_temporary_name_until_it_is_complete() {
    let folder = Folder::new();
    let mut post = post(folder.options());
    post.deliver_until_ok(&[event("a"), event("b")]).await;
    let names = folder.names();
    assert!(names.len() == 1 && names[0].starts_with("orders-20") && names[0].ends_with(".jsonl.part"), "{names:?}");
    assert!(post.close().await.is_empty());
    assert_eq!(folder.names(), [names[0].trim_end_matches(".part")]);
    assert_eq!(folder.complete(), ["a", "b"]);
}

#[tokio::test]
async fn a_file_that_is_large_enough_is_completed_and_order_goes_on_in_the_next() {
    let folder = Folder::new();
    let mut post = post(changed(folder.options(), |o| o.rotate_size = 1));
    for id in ["a", "b", "c"] {
        post.deliver_until_ok(&[event(id)]).await;
    }
    assert_eq!((folder.names().len(), folder.complete()), (3, vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]));
    post.close().await;
}

#[tokio::test]
async fn a_file_that_is_old_enough_is_completed_although_nothing_more_comes() {
    let folder = Folder::new();
    let mut post = post(changed(folder.options(), |o| o.rotate_every = Duration::from_millis(30)));
    post.deliver_until_ok(&[event("a")]).await;
    until("the file to be complete", async || folder.complete() == ["a"]).await;
    post.close().await;
}

#[tokio::test]
async fn every_way_to_sync_delivers() {
    for fsync in [Fsync::Batch, Fsync::Complete, Fsync::Never] {
        let folder = Folder::new();
        let mut post = post(changed(folder.options(), |o| o.fsync = fsync));
        post.deliver_until_ok(&[event("a"), event("b")]).await;
        post.close().await;
        assert_eq!(folder.complete(), ["a", "b"], "{fsync:?}");
    }
}

#[tokio::test]
async fn a_check_says_whether_the_folder_can_be_written_and_changes_nothing() {
    let folder = Folder::new();
    let found = transport(folder.options()).check().await;
    assert_eq!((found.len(), found[0].level), (1, Level::Fine), "{found:?}");
    assert_eq!(folder.names(), [""; 0]);
    fs::write(folder.path().join("plain"), "").unwrap();
    for (path, said) in [("missing", "does not exist"), ("plain", "is not a folder")] {
        let options = changed(FileOptions::new(folder.path().join(path)), |o| o.fsync = Fsync::Never);
        let found = transport(options).check().await;
        assert_eq!((found[0].level, found[0].code.as_deref()), (Level::Problem, Some("file.no_folder")), "{found:?}");
        assert!(found[0].message.ends_with(said), "{found:?}");
        assert_eq!((found[1].level, found[1].code.as_deref()), (Level::Warning, Some("file.not_synced")), "{found:?}");
    }
}
