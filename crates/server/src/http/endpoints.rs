//! Every endpoint of the API. The router, the OpenAPI description and the test of every role are made from this table.

use axum::response::Response;
use futures_util::future::BoxFuture;
use postroom_core::Role;

use super::api::{act, live, look, pull, replay};
use super::call::Call;
use super::params::{Kind, Param, body, must, path, query};
use super::problem::Problem;

/// What answers.
pub(crate) type Handler = fn(Call) -> BoxFuture<'static, Result<Response, Problem>>;

/// One endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint {
    pub(crate) verb: Verb,
    /// Below `/api/v1`.
    pub(crate) path: &'static str,
    pub(crate) role: Role,
    pub(crate) about: &'static str,
    pub(crate) params: &'static [Param],
    /// What comes back, as the description names it.
    pub(crate) answer: Answer,
    pub(crate) handler: Handler,
}

/// How it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Get,
    Post,
    Delete,
}

/// What comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// One thing of this name.
    One(&'static str),
    /// A list of them.
    List(&'static str),
    /// The same, page by page.
    Pages(&'static str),
    /// A thing that was made.
    Made(&'static str),
    /// Server-sent events, each with one of them.
    Stream(&'static str),
}

const STORE: Param = query("store", Kind::Text, "the store, where there are several");
const LIMIT: Param = query("limit", Kind::Number(1, 1000, 50), "most rows");
const CURSOR: Param = query("cursor", Kind::Cursor, "the next page, as `Link` of the one before said");
const KEY_PLACE: Param = query("cursor", Kind::Place(3), CURSOR.about);
const INBOX_PLACE: Param = query("cursor", Kind::Place(2), CURSOR.about);
const ROUTE: Param = path("route", "the route");
const OF_ROUTE: Param = query("route", Kind::Text, "only of this route");
const TYPE: Param = query("type", Kind::Pattern, "event type; `*` at the end stands for any rest");
const KEY: Param = query("key", Kind::Text, "ordering key");
const AGGREGATE: Param = query("aggregate_type", Kind::Text, "aggregate type");
const TENANT: Param = query("tenant", Kind::Text, "tenant");
const CODE: Param = query("code", Kind::Text, "code of the last failure");
const FROM: Param = query("from", Kind::Time, "occurred then or later: RFC 3339, or how long ago");
const TO: Param = query("to", Kind::Time, "occurred before: RFC 3339, or how long ago");
const REPLAY_ID: Param = path("id", "the replay's id");
const REASON: Param = body("reason", Kind::Text, "why, for the audit");
const DRY_RUN: Param = body("dry_run", Kind::Flag, "only say what would be done");
const CONFIRM: Param =
    body("confirm", Kind::Number(0, u32::MAX, 0), "how many deliveries a dry run said it would touch");

const fn in_body(param: Param) -> Param {
    body(param.name, param.kind, param.about)
}

const IDS: Param = body("ids", Kind::Texts, "ids of events");
const RATE: Param =
    body("rate", Kind::Rate, "most deliveries per second: `50/s`; as fast as it goes, if it is not given");

/// Which events are meant and how it is confirmed; then what else an endpoint takes.
macro_rules! selecting {
    ($($more:expr),*) => {
        &[
            STORE,
            IDS,
            in_body(OF_ROUTE),
            in_body(TYPE),
            in_body(KEY),
            in_body(AGGREGATE),
            in_body(TENANT),
            in_body(FROM),
            in_body(TO),
            $($more,)*
            DRY_RUN,
            CONFIRM,
            REASON,
        ]
    };
}

/// Which settled events, and how they are sent again.
static REPLAY: &[Param] =
    selecting![RATE, body("allow_duplicates", Kind::Flag, "also events older than the inbox remembers")];

/// Which dead letters, and how they are sent again.
static REPLAY_DEAD: &[Param] = selecting![in_body(CODE), RATE];

/// Which dead letters are removed.
static DISCARD: &[Param] = selecting![in_body(CODE)];

macro_rules! handler {
    ($handler:path) => {
        |call| Box::pin($handler(call))
    };
}

const fn get(
    path: &'static str,
    about: &'static str,
    params: &'static [Param],
    answer: Answer,
    handler: Handler,
) -> Endpoint {
    Endpoint { verb: Verb::Get, path, role: Role::Viewer, about, params, answer, handler }
}

const fn post(
    path: &'static str,
    about: &'static str,
    params: &'static [Param],
    answer: Answer,
    handler: Handler,
) -> Endpoint {
    Endpoint { verb: Verb::Post, path, role: Role::Operator, about, params, answer, handler }
}

const fn admin(endpoint: Endpoint) -> Endpoint {
    Endpoint { role: Role::Admin, ..endpoint }
}

use Answer::{List, Made, One, Pages, Stream};

/// All of them.
pub(crate) static ENDPOINTS: &[Endpoint] = &[
    get("/status", "Is it moving? Routes, relays and stores.", &[], One("Status"), handler!(look::status)),
    get("/live", "The same, every second.", &[], Stream("Status"), handler!(live::status)),
    get("/routes", "Every route, registered or only configured.", &[], List("RouteStatus"), handler!(look::routes)),
    get(
        "/routes/{route}",
        "One route: what it wants, its lanes.",
        &[ROUTE, STORE],
        One("RouteDetail"),
        handler!(look::route),
    ),
    get(
        "/routes/{route}/minutes",
        "What a route did, minute by minute, for up to a day.",
        &[
            ROUTE,
            STORE,
            query("from", Kind::Time, "since then: RFC 3339, or how long ago; an hour, if it is not given"),
        ],
        List("MinuteRow"),
        handler!(look::minutes),
    ),
    post(
        "/routes/{route}/pause",
        "Stops a route; nothing is lost.",
        &[ROUTE, STORE, REASON],
        One("Switched"),
        handler!(act::pause),
    ),
    post("/routes/{route}/resume", "Lets it go on.", &[ROUTE, STORE, REASON], One("Switched"), handler!(act::resume)),
    admin(post(
        "/routes/{route}/forget",
        "Removes a route that no relay serves, with its position and deliveries.",
        &[ROUTE, STORE, REASON, DRY_RUN],
        One("RouteStatus"),
        handler!(act::forget),
    )),
    get(
        "/events",
        "Events, newest first.",
        &[STORE, TYPE, KEY, AGGREGATE, TENANT, FROM, TO, LIMIT, CURSOR],
        Pages("EventRow"),
        handler!(look::events),
    ),
    get(
        "/events/live",
        "Events as they are appended.",
        &[STORE, TYPE, KEY, AGGREGATE, TENANT],
        Stream("EventRow"),
        handler!(live::events),
    ),
    get(
        "/events/{id}",
        "Where is my event? Every try on every route. The payload only for operators, and less what is redacted.",
        &[path("id", "the event's id"), STORE, query("payload", Kind::Flag, "with the payload")],
        One("Timeline"),
        handler!(look::event),
    ),
    get(
        "/keys",
        "Keys that wait behind an event.",
        &[STORE, OF_ROUTE, LIMIT, KEY_PLACE],
        Pages("BlockedKey"),
        handler!(look::keys),
    ),
    post(
        "/keys/unblock",
        "Lets a key go on while its head keeps its own retries.",
        &[STORE, must(in_body(OF_ROUTE)), must(in_body(KEY)), REASON],
        One("Unblocked"),
        handler!(act::unblock),
    ),
    post(
        "/keys/skip-head",
        "Gives the head of a key up as a dead letter and lets the key go on.",
        &[
            STORE,
            must(in_body(OF_ROUTE)),
            must(in_body(KEY)),
            must(body("head", Kind::Text, "id of the event in front, as `/keys` said")),
            DRY_RUN,
            REASON,
        ],
        One("Skipped"),
        handler!(act::skip_head),
    ),
    get(
        "/dead",
        "Dead letters, oldest first.",
        &[STORE, OF_ROUTE, CODE, TYPE, KEY, AGGREGATE, TENANT, FROM, TO, LIMIT, CURSOR],
        Pages("DeliveryRow"),
        handler!(look::dead),
    ),
    post(
        "/dead/discard",
        "Removes dead letters for good; their keys go on.",
        DISCARD,
        One("Affected"),
        handler!(act::discard),
    ),
    get(
        "/dead/groups",
        "Dead letters by what they died of.",
        &[STORE, OF_ROUTE, CODE, TYPE, KEY, AGGREGATE, TENANT, FROM, TO, LIMIT],
        List("DeadGroup"),
        handler!(look::groups),
    ),
    post(
        "/dead/replay",
        "Makes dead letters due again, with their attempts back at 0. A dry run answers what it would touch.",
        REPLAY_DEAD,
        Made("ReplayRow"),
        handler!(replay::dead),
    ),
    get(
        "/replays",
        "What was sent again, newest first.",
        &[STORE, query("state", Kind::Text, "running, paused, cancelled or done"), LIMIT],
        List("ReplayRow"),
        handler!(replay::list),
    ),
    post(
        "/replays",
        "Sends settled events again, with the same ids. A dry run answers what it would touch.",
        REPLAY,
        Made("ReplayRow"),
        handler!(replay::settled),
    ),
    get("/replays/{id}", "One of them.", &[REPLAY_ID, STORE], One("ReplayRow"), handler!(replay::show)),
    post(
        "/replays/{id}/pause",
        "No more for now.",
        &[REPLAY_ID, STORE, REASON],
        One("Changed"),
        handler!(replay::pause),
    ),
    post("/replays/{id}/resume", "Goes on.", &[REPLAY_ID, STORE, REASON], One("Changed"), handler!(replay::resume)),
    post(
        "/replays/{id}/cancel",
        "No more at all; what was made due stays due.",
        &[REPLAY_ID, STORE, REASON],
        One("Changed"),
        handler!(replay::cancel),
    ),
    admin(post(
        "/inbox/forget",
        "Forgets that a consumer accepted an event: it does the work once more.",
        &[
            STORE,
            must(body("consumer", Kind::Text, "the consumer")),
            must(body("id", Kind::Text, "the event's id")),
            REASON,
        ],
        One("Forgotten"),
        handler!(act::forget_inbox),
    )),
    get(
        "/inbox",
        "What consumers accepted, the greatest event ids first: Postroom's own grow with time.",
        &[
            STORE,
            query("consumer", Kind::Text, "of this consumer"),
            query("id", Kind::Text, "of this event"),
            LIMIT,
            INBOX_PLACE,
        ],
        Pages("InboxRow"),
        handler!(look::inbox),
    ),
    post(
        "/pull/{route}",
        "Leases events of a pull route to a worker. Waits for the first one as long as `wait` says.",
        &[
            ROUTE,
            STORE,
            body("limit", Kind::Number(1, 1000, 100), "most events"),
            body("wait", Kind::Duration, "how long to wait for the first one, at most 20s"),
            body(
                "lease",
                Kind::Duration,
                "how long the worker may take, 1s to 1h; the route's own, if it is not given",
            ),
        ],
        List("Leased"),
        handler!(pull::lease),
    ),
    post(
        "/pull/{route}/settle",
        "Says what came of leased events: `{\"lease\", \"ok\": true}`, or `{\"lease\", \"error\", \"permanent\", \"retry_after\"}`.",
        &[ROUTE, STORE, must(body("results", Kind::Objects, "one answer for each lease"))],
        One("Settled"),
        handler!(pull::settle),
    ),
    get("/relays", "Every relay that has joined.", &[], List("RelayRow"), handler!(look::relays)),
    get("/store", "Every store.", &[], List("StoreRow"), handler!(look::stores)),
    get("/audit", "Did we lose anything? The answer by counting.", &[STORE], List("AuditRow"), handler!(look::audit)),
    get(
        "/actions",
        "What operators did, newest first.",
        &[STORE, LIMIT, CURSOR],
        Pages("ActionRow"),
        handler!(look::actions),
    ),
    admin(get("/tokens", "Tokens; never the tokens themselves.", &[STORE], List("TokenRow"), handler!(look::tokens))),
    admin(post(
        "/tokens",
        "Makes a token. It is told now and never again.",
        &[
            STORE,
            must(body("name", Kind::Text, "its name, for the audit")),
            must(body("role", Kind::Role, "viewer, operator or admin")),
            body("expires", Kind::Duration, "when it ends, from now: `30d`; never, if it is not given"),
            REASON,
        ],
        Made("NewToken"),
        handler!(act::make_token),
    )),
    Endpoint {
        verb: Verb::Delete,
        ..admin(post(
            "/tokens/{name}",
            "Ends a token.",
            &[path("name", "its name"), STORE, REASON],
            One("Revoked"),
            handler!(act::revoke_token),
        ))
    },
];
