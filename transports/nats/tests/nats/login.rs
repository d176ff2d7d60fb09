//! Who may in: every way to log in, right and wrong.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use nkeys::KeyPair;
use postroom_conformance::changed;
use postroom_core::{FailureKind, Secret, SecretUrl};
use postroom_nats::{Login, NatsOptions};
use postroom_testbed::OwnServer;
use postroom_testbed::brokers::{NatsWith, PASSWORD};
use tempfile::TempDir;

use crate::nats::streams::{LONG, Stream, event, failure, post};

/// A stream on the server, made by somebody with this login, and options without a login.
async fn stream(server: &OwnServer, connect: async_nats::ConnectOptions) -> (Stream, NatsOptions) {
    let client = connect.connect(format!("nats://127.0.0.1:{}", server.site.port)).await.expect("the right login");
    let stream = Stream::seen_by(client);
    stream.create(|_| {}).await;
    let options = stream.options(server.site.port, LONG);
    (stream, options)
}

async fn gets_in(stream: &Stream, options: NatsOptions) {
    let before = stream.messages().await;
    let id = format!("e-{before}");
    post(options).deliver_until_ok(&[event(&id)]).await;
    assert_eq!(stream.messages().await, before + 1);
}

async fn stays_out(options: NatsOptions) {
    let failed = failure(&mut post(options.clone()), "e-1").await;
    assert_eq!((failed.kind, &*failed.code), (FailureKind::Unavailable, "nats.login"), "{failed:?}");
    for text in [failed.error, format!("{options:?}")] {
        assert!(!text.contains("canary") && !text.contains("SU"), "a secret is shown: {text}");
    }
}

fn url(port: u16, login: &str) -> Vec<SecretUrl> {
    vec![SecretUrl::new(format!("nats://{login}@127.0.0.1:{port}"))]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_opens_the_door_and_a_wrong_one_does_not() {
    let users = format!("authorization {{ users: [{{ user: relay, password: \"{PASSWORD}\" }}] }}");
    let server = OwnServer::start(NatsWith::lines(users)).expect("a server");
    let right = async_nats::ConnectOptions::with_user_and_password("relay".into(), PASSWORD.into());
    let (stream, options) = stream(&server, right).await;
    let with = |password: &str| {
        changed(options.clone(), |o| o.login = Login::UserPassword("relay".into(), Secret::new(password)))
    };
    gets_in(&stream, with(PASSWORD)).await;
    let in_url = |login: &str| changed(options.clone(), |o| o.urls = url(server.site.port, login));
    gets_in(&stream, in_url(&format!("relay:{PASSWORD}"))).await;
    stays_out(with("canary")).await;
    stays_out(in_url("relay:canary")).await;
    stays_out(options.clone()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_opens_the_door_and_a_wrong_one_does_not() {
    let server =
        OwnServer::start(NatsWith::lines(format!("authorization {{ token: \"{PASSWORD}\" }}"))).expect("a server");
    let (stream, options) = stream(&server, async_nats::ConnectOptions::with_token(PASSWORD.into())).await;
    let with = |token: &str| changed(options.clone(), |o| o.login = Login::Token(Secret::new(token)));
    gets_in(&stream, with(PASSWORD)).await;
    gets_in(&stream, changed(options.clone(), |o| o.urls = url(server.site.port, PASSWORD))).await;
    stays_out(with("canary")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_opens_the_door_and_a_strangers_does_not() {
    let (key, stranger) = (KeyPair::new_user(), KeyPair::new_user());
    let users = format!("authorization {{ users: [{{ nkey: {} }}] }}", key.public_key());
    let server = OwnServer::start(NatsWith::lines(users)).expect("a server");
    let seed = |key: &KeyPair| key.seed().expect("a pair of ours");
    let (stream, options) = stream(&server, async_nats::ConnectOptions::with_nkey(seed(&key))).await;
    let with = |seed: String| changed(options.clone(), |o| o.login = Login::NkeySeed(Secret::new(seed)));
    gets_in(&stream, with(seed(&key))).await;
    stays_out(with(seed(&stranger))).await;
    stays_out(with("canary".into())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credentials_file_opens_the_door_and_a_strangers_or_a_missing_one_does_not() {
    let realm = Realm::new();
    let server = OwnServer::start(NatsWith::lines(realm.config())).expect("a server");
    let right = credentials(&realm.account);
    let connect = async_nats::ConnectOptions::with_credentials(&right).expect("they can be read");
    let (stream, options) = stream(&server, connect).await;
    let folder = TempDir::new().expect("a folder");
    let with = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        changed(options.clone(), |o| o.login = Login::CredentialsFile(path))
    };
    gets_in(&stream, with("right.creds", &right)).await;
    stays_out(with("stranger.creds", &credentials(&KeyPair::new_account()))).await;
    stays_out(with("rubbish.creds", "canary")).await;
    let missing = folder.path().join("missing.creds");
    let options = changed(options, |o| o.login = Login::CredentialsFile(missing));
    let failed = failure(&mut post(options), "e-1").await;
    assert_eq!(failed.code, "nats.login");
    assert!(failed.error.contains("missing.creds"), "{}", failed.error);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_may_not_publish_or_not_even_look_is_told_so() {
    let user = |name: &str, publish: &str| {
        format!("{{ user: {name}, password: p, permissions: {{ publish: {publish}, subscribe: \">\" }} }}")
    };
    let users = [
        "{ user: all, password: p }".to_owned(),
        user("looks", "[\"$JS.API.STREAM.INFO.*\"]"),
        user("blind", "{ deny: \"$JS.>\" }"),
    ];
    let users = format!("authorization {{ users: [{}] }}", users.join("\n"));
    let server = OwnServer::start(NatsWith::lines(users)).expect("a server");
    let all = async_nats::ConnectOptions::with_user_and_password("all".into(), "p".into());
    let (_stream, options) = stream(&server, all).await;
    for (user, named) in [("looks", "parcel.sent"), ("blind", "STREAM.INFO")] {
        let options = changed(options.clone(), |o| o.urls = url(server.site.port, &format!("{user}:p")));
        let failed = failure(&mut post(options), "e-1").await;
        assert_eq!((failed.kind, &*failed.code), (FailureKind::Unavailable, "nats.permission"), "{user}: {failed:?}");
        assert!(failed.error.contains(named), "{}", failed.error);
    }
}

/// An operator with one account, as `nsc` would make them.
struct Realm {
    operator: KeyPair,
    account: KeyPair,
    system: KeyPair,
}

impl Realm {
    fn new() -> Self {
        Self { operator: KeyPair::new_operator(), account: KeyPair::new_account(), system: KeyPair::new_account() }
    }

    fn config(&self) -> String {
        let operator = jwt(&self.operator, &self.operator, "operator", "");
        let limits = r#""limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,
            "leaf":-1,"mem_storage":-1,"disk_storage":-1,"streams":-1,"consumer":-1},"#;
        let account = |key: &KeyPair, limits| jwt(&self.operator, key, "account", limits);
        format!(
            "operator: {operator}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {}\n {}: {} }}\n",
            self.system.public_key(),
            self.system.public_key(),
            account(&self.system, ""),
            self.account.public_key(),
            account(&self.account, limits),
        )
    }
}

/// A file of credentials for a new user of this account.
fn credentials(account: &KeyPair) -> String {
    let user = KeyPair::new_user();
    let limits = r#""pub":{},"sub":{},"subs":-1,"data":-1,"payload":-1,"#;
    let (jwt, seed) = (jwt(account, &user, "user", limits), user.seed().expect("a pair of ours"));
    format!(
        "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
}

fn jwt(issuer: &KeyPair, subject: &KeyPair, kind: &str, more: &str) -> String {
    let (issuer_key, subject_key) = (issuer.public_key(), subject.public_key());
    let claims = format!(
        r#"{{"jti":"{subject_key}","iat":1700000000,"iss":"{issuer_key}","name":"{kind}","sub":"{subject_key}",
            "nats":{{{more}"type":"{kind}","version":2}}}}"#
    );
    let text = format!("{}.{}", BASE64.encode(r#"{"typ":"JWT","alg":"ed25519-nkey"}"#), BASE64.encode(claims));
    let signature = issuer.sign(text.as_bytes()).expect("a pair of ours");
    format!("{text}.{}", BASE64.encode(signature))
}
