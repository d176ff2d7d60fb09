//! What dead writers leave, and what living ones keep.

use std::fs;
use std::path::PathBuf;

use crate::folder::{Folder, event, is_part, post};

/// A file as a writer leaves it that dies in the middle of a line.
fn left_behind(folder: &Folder, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).expect("a file can be left");
    path
}

#[tokio::test]
async fn a_dead_writers_file_is_completed_and_its_half_line_cut_off() {
    let folder = Folder::new();
    left_behind(
        &folder,
        "orders-20260101T000000000000Z-0000000a.jsonl.part",
        "{\"id\":\"x\"}\n{\"id\":\"y\"}\n{\"id\":\"z",
    );
    left_behind(&folder, "orders-20260101T000000000001Z-0000000b.jsonl.part", &"{".repeat(200_000));
    let mut post = post(folder.options());
    post.deliver_until_ok(&[event("a")]).await;
    post.close().await;
    assert_eq!(folder.complete(), ["x", "y", "a"]);
    assert_eq!(folder.names().len(), 2, "a file without a whole line is removed");
}

#[tokio::test]
async fn files_of_other_routes_and_of_people_are_left_alone() {
    let folder = Folder::new();
    let mut names = ["orders-eu-20260101T000000000000Z-0000000a.jsonl.part", "orders-20.jsonl", "notes.part"];
    names.sort_unstable();
    for name in names {
        left_behind(&folder, name, "half");
    }
    let mut post = post(folder.options());
    post.deliver_until_ok(&[event("a")]).await;
    post.close().await;
    let others: Vec<String> = folder.names().into_iter().filter(|name| names.contains(&name.as_str())).collect();
    assert_eq!(others, names);
    assert_eq!(fs::read_to_string(folder.path().join(names[0])).unwrap(), "half");
}

#[tokio::test]
async fn two_writers_never_share_a_file_nor_take_a_living_ones_over() {
    let folder = Folder::new();
    let (mut first, mut second) = (post(folder.options()), post(folder.options()));
    first.deliver_until_ok(&[event("a")]).await;
    second.deliver_until_ok(&[event("b")]).await;
    first.deliver_until_ok(&[event("c")]).await;
    let parts: Vec<Vec<String>> = folder.names().iter().map(|name| folder.ids(name)).collect();
    assert_eq!(parts, [vec!["a".to_owned(), "c".to_owned()], vec!["b".to_owned()]]);
    assert!(folder.names().iter().all(|name| is_part(name)), "{:?}", folder.names());
    first.close().await;
    second.close().await;
    assert_eq!(folder.complete(), ["a", "c", "b"]);
}

#[tokio::test]
async fn a_file_that_somebody_removes_is_not_written_any_more() {
    let folder = Folder::new();
    let mut post = post(folder.options());
    post.deliver_until_ok(&[event("a")]).await;
    fs::remove_file(folder.path().join(&folder.names()[0])).unwrap();
    post.deliver_until_ok(&[event("b")]).await;
    post.close().await;
    assert_eq!(folder.complete(), ["b"]);
}
