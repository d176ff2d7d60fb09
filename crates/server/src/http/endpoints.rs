//! Table of all endpoints of the API. The router, the OpenAPI description and the test of every role are made from it.

use axum::response::Response;
use futures_util::future::BoxFuture;
use postroom_admin::Role;

use super::api::{act, append, live, look, pull, replay};
use super::call::Call;
use super::params::{Kind, Param, body, must, path, query, whole_body};
use super::problem::Problem;

/// Function that answers a request.
pub(crate) type Handler = fn(Call) -> BoxFuture<'static, Result<Response, Problem>>;

/// Endpoint of the API.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint {
    pub(crate) verb: Verb,
    /// Path below `/api/v1`.
    pub(crate) path: &'static str,
    pub(crate) role: Role,
    pub(crate) about: &'static str,
    pub(crate) params: &'static [Param],
    /// Shape of the response.
    pub(crate) answer: Answer,
    pub(crate) repeat: Repeat,
    pub(crate) handler: Handler,
}

/// Whether a request that is repeated with its `Idempotency-Key` is answered as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// The key is ignored: the request changes nothing, or its answer must not be kept.
    Never,
    /// The first answer is remembered under the key.
    ByKey,
}

/// HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Get,
    Post,
    Delete,
}

/// Shape of a response, with the name of its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// One object.
    One(&'static str),
    /// List of objects.
    List(&'static str),
    /// List of objects, page by page.
    Pages(&'static str),
    /// Object that was created.
    Made(&'static str),
    /// Server-sent events, each with one object.
    Stream(&'static str),
}

const STORE: Param = query("store", Kind::Text, "name of the store; needed only if there are several");
const LIMIT: Param = query("limit", Kind::Number(1, 1000, 50), "maximum number of rows");
const CURSOR: Param = query("cursor", Kind::Cursor, "start of the page, from the `Link` header of the page before");
const KEY_PLACE: Param = query("cursor", Kind::Place(3), CURSOR.about);
const INBOX_PLACE: Param = query("cursor", Kind::Place(2), CURSOR.about);
const ROUTE: Param = path("route", "name of the route");
const OF_ROUTE: Param = query("route", Kind::Text, "name of the route");
const TYPE: Param = query("type", Kind::Pattern, "event type; a `*` at the end matches any suffix");
const KEY: Param = query("key", Kind::Text, "ordering key");
const AGGREGATE: Param = query("aggregate_type", Kind::Text, "aggregate type");
const TENANT: Param = query("tenant", Kind::Text, "tenant");
const CODE: Param = query("code", Kind::Text, "code of the last failure, for instance `exec.timeout`");
pub(crate) const STATES: Param =
    query("state", Kind::Text, "states of the deliveries, with commas: due, retrying, blocked, delayed, dead");
const FROM: Param = query("from", Kind::Time, "earliest time of occurrence: RFC 3339, or how long ago");
const TO: Param = query("to", Kind::Time, "time of occurrence before which events must lie: RFC 3339, or how long ago");
const REPLAY_ID: Param = path("id", "id of the replay");
const REASON: Param = body("reason", Kind::Text, "reason, recorded in the audit log");
const DRY_RUN: Param = body("dry_run", Kind::Flag, "return a preview and change nothing");
const CONFIRM: Param =
    body("confirm", Kind::Number(0, u32::MAX, 0), "number of affected deliveries, from the response to a dry run");

const CONFIRM_LOST: &str =
    "number of undelivered events that are lost for the route, required above 1,000 and for an estimate";

const fn in_body(param: Param) -> Param {
    body(param.name, param.kind, param.about)
}

/// An endpoint with it selects nothing unless it is told what.
pub(super) const ALL: Param =
    body("all", Kind::Flag, "select every delivery; required if neither ids nor filters are given");
const IDS: Param = body("ids", Kind::Texts, "ids of the events");
const RATE: Param = body("rate", Kind::Rate, "maximum deliveries per second, for instance `50/s`; no limit by default");

const EVENTS: Param = whole_body("events", Kind::Events, "the event, or a list of events");

/// Parameters that select events and confirm the action, with further ones of an endpoint.
macro_rules! selecting {
    ($($more:expr),*) => {
        &[
            STORE,
            IDS,
            ALL,
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

/// Parameters of a replay of settled events.
static REPLAY: &[Param] =
    selecting![RATE, body("allow_duplicates", Kind::Flag, "include events older than the retention of the inbox")];

/// Parameters of a replay of dead letters.
static REPLAY_DEAD: &[Param] = selecting![in_body(CODE), RATE];

/// Parameters that select the dead letters to discard.
static DISCARD: &[Param] = selecting![
    in_body(CODE),
    body("died_by", Kind::Time, "`died_by` of the response to a dry run: dead letters that died later stay")
];

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
    Endpoint { verb: Verb::Get, path, role: Role::Viewer, about, params, answer, repeat: Repeat::Never, handler }
}

const fn post(
    path: &'static str,
    about: &'static str,
    params: &'static [Param],
    answer: Answer,
    handler: Handler,
) -> Endpoint {
    Endpoint { verb: Verb::Post, path, role: Role::Operator, about, params, answer, repeat: Repeat::ByKey, handler }
}

const fn operator(endpoint: Endpoint) -> Endpoint {
    Endpoint { role: Role::Operator, ..endpoint }
}

const fn admin(endpoint: Endpoint) -> Endpoint {
    Endpoint { role: Role::Admin, ..endpoint }
}

/// For workers. Leases are not repeatable, and settling twice changes nothing.
const fn worker(endpoint: Endpoint) -> Endpoint {
    Endpoint { role: Role::Worker, repeat: Repeat::Never, ..endpoint }
}

/// The answer has a secret, which is not kept.
const fn secret(endpoint: Endpoint) -> Endpoint {
    Endpoint { repeat: Repeat::Never, ..endpoint }
}

use Answer::{List, Made, One, Pages, Stream};

/// All endpoints.
pub(crate) static ENDPOINTS: &[Endpoint] = &[
    get(
        "/status",
        "Returns the status of routes, relays and stores.",
        &[OF_ROUTE],
        One("Status"),
        handler!(look::status),
    ),
    get(
        "/live",
        "Streams the status of routes, relays and stores every second.",
        &[OF_ROUTE],
        Stream("Status"),
        handler!(live::status),
    ),
    get(
        "/routes",
        "Lists routes, both registered and only configured.",
        &[OF_ROUTE],
        List("RouteLine"),
        handler!(look::routes),
    ),
    get(
        "/routes/{route}",
        "Returns a route with its filter and its lanes.",
        &[ROUTE, STORE],
        One("RouteDetail"),
        handler!(look::route),
    ),
    get(
        "/routes/{route}/throughput",
        "Returns the throughput of a route, minute by minute, for up to a day.",
        &[
            ROUTE,
            STORE,
            query("from", Kind::Time, "start of the period: RFC 3339, or how long ago; one hour ago by default"),
        ],
        List("ThroughputRow"),
        handler!(look::throughput),
    ),
    post(
        "/routes/{route}/pause",
        "Pauses a route; its events wait and none is lost.",
        &[ROUTE, STORE, REASON],
        One("Switched"),
        handler!(act::pause),
    ),
    post(
        "/routes/{route}/resume",
        "Resumes a paused route.",
        &[ROUTE, STORE, REASON],
        One("Switched"),
        handler!(act::resume),
    ),
    post(
        "/routes/{route}/probe",
        "Asks the relays of a route to try its destination now, if its breaker is open.",
        &[ROUTE, STORE, REASON],
        One("Switched"),
        handler!(act::probe),
    ),
    admin(post(
        "/routes/{route}/rename",
        "Renames a route that no relay serves; its position, deliveries and dead letters stay.",
        &[ROUTE, must(body("to", Kind::Text, "new name of the route")), STORE, REASON, DRY_RUN],
        One("RouteStatus"),
        handler!(act::rename),
    )),
    admin(post(
        "/routes/{route}/forget",
        "Removes a route that no relay serves, with its position, deliveries and dead letters.",
        &[ROUTE, STORE, REASON, DRY_RUN, body("confirm", Kind::Number(0, u32::MAX, 0), CONFIRM_LOST)],
        One("RouteStatus"),
        handler!(act::forget),
    )),
    get(
        "/events",
        "Lists events, newest first.",
        &[STORE, TYPE, KEY, AGGREGATE, TENANT, FROM, TO, LIMIT, CURSOR],
        Pages("EventRow"),
        handler!(look::events),
    ),
    post(
        "/events",
        "Appends an event, or a list of up to 1,000 events in one transaction. An event with an `id` is appended once, however often it is sent.",
        &[STORE, EVENTS],
        Made("Appended"),
        handler!(append::append),
    ),
    get(
        "/events/live",
        "Streams events as they are appended.",
        &[STORE, TYPE, KEY, AGGREGATE, TENANT],
        Stream("EventRow"),
        handler!(live::events),
    ),
    get(
        "/events/{id}",
        "Returns the timeline of an event: every attempt on every route. Operators may request the payload, which is redacted.",
        &[
            path("id", "id of the event"),
            STORE,
            query("tenant", Kind::Text, "tenant that the event must have"),
            query("payload", Kind::Flag, "include the payload"),
        ],
        One("Timeline"),
        handler!(look::event),
    ),
    get(
        "/keys",
        "Lists blocked keys: keys whose events wait behind an earlier event.",
        &[STORE, OF_ROUTE, LIMIT, KEY_PLACE],
        Pages("BlockedKey"),
        handler!(look::keys),
    ),
    post(
        "/keys/unblock",
        "Unblocks a key: later events overtake its head, which keeps its own retries.",
        &[STORE, must(in_body(OF_ROUTE)), must(in_body(KEY)), REASON],
        One("Unblocked"),
        handler!(act::unblock),
    ),
    post(
        "/keys/skip-head",
        "Turns the head of a key into a dead letter, and delivers the later events of the key.",
        &[
            STORE,
            must(in_body(OF_ROUTE)),
            must(in_body(KEY)),
            must(body("head", Kind::Text, "id of the head of the key, from `/keys`")),
            DRY_RUN,
            REASON,
        ],
        One("Skipped"),
        handler!(act::skip_head),
    ),
    Endpoint {
        verb: Verb::Delete,
        ..admin(post(
            "/keys/{key}/payloads",
            "Erases the payloads and headers of a key's events and dead letters, and keeps the events with their ids and counts.",
            &[
                path("key", "ordering key"),
                STORE,
                query("undelivered", Kind::Flag, "also of events that a route has still to deliver"),
                query("dry_run", Kind::Flag, "only say what would be erased"),
                query("confirm", Kind::Number(0, u32::MAX, 0), "how many payloads a dry run said it would erase"),
                query("reason", Kind::Text, "why, for the audit"),
            ],
            One("Erased"),
            handler!(act::erase),
        ))
    },
    get(
        "/deliveries",
        "Lists deliveries that are not settled, oldest first; also of events that no relay has read yet.",
        &[STORE, STATES, OF_ROUTE, CODE, TYPE, KEY, AGGREGATE, TENANT, FROM, TO, LIMIT, CURSOR],
        Pages("DeliveryRow"),
        handler!(look::deliveries),
    ),
    get(
        "/deliveries/groups",
        "Groups deliveries that failed by route, state, code and cause, and counts them by event type and tenant.",
        &[STORE, STATES, OF_ROUTE, CODE, TYPE, KEY, AGGREGATE, TENANT, FROM, TO, LIMIT],
        List("DeliveryGroup"),
        handler!(look::delivery_groups),
    ),
    get(
        "/dead",
        "Lists dead letters, oldest first.",
        &[STORE, OF_ROUTE, CODE, TYPE, KEY, AGGREGATE, TENANT, FROM, TO, LIMIT, CURSOR],
        Pages("DeliveryRow"),
        handler!(look::dead),
    ),
    post(
        "/dead/discard",
        "Discards dead letters permanently, and unblocks the keys that wait for them.",
        DISCARD,
        One("Affected"),
        handler!(act::discard),
    ),
    get(
        "/dead/groups",
        "Groups dead letters by route, code and cause, and counts them by event type and tenant.",
        &[STORE, OF_ROUTE, CODE, TYPE, KEY, AGGREGATE, TENANT, FROM, TO, LIMIT],
        List("DeliveryGroup"),
        handler!(look::groups),
    ),
    post(
        "/dead/replay",
        "Replays dead letters with the same ids; their attempts start at 0 again. A dry run returns the number of affected deliveries.",
        REPLAY_DEAD,
        Made("ReplayRow"),
        handler!(replay::dead),
    ),
    get(
        "/replays",
        "Lists replays, newest first.",
        &[STORE, query("state", Kind::Text, "state of the replay: running, paused, cancelled or done"), LIMIT],
        List("ReplayRow"),
        handler!(replay::list),
    ),
    post(
        "/replays",
        "Replays settled events with the same ids. A dry run returns the number of affected deliveries.",
        REPLAY,
        Made("ReplayRow"),
        handler!(replay::settled),
    ),
    get("/replays/{id}", "Returns a replay.", &[REPLAY_ID, STORE], One("ReplayRow"), handler!(replay::show)),
    post(
        "/replays/{id}/pause",
        "Pauses a replay; deliveries that are already due stay due.",
        &[REPLAY_ID, STORE, REASON],
        One("Changed"),
        handler!(replay::pause),
    ),
    post(
        "/replays/{id}/resume",
        "Resumes a paused replay.",
        &[REPLAY_ID, STORE, REASON],
        One("Changed"),
        handler!(replay::resume),
    ),
    post(
        "/replays/{id}/cancel",
        "Cancels a replay; deliveries that are already due stay due.",
        &[REPLAY_ID, STORE, REASON],
        One("Changed"),
        handler!(replay::cancel),
    ),
    admin(post(
        "/inbox/forget",
        "Forgets that a consumer accepted an event, so that the consumer processes it again on the next delivery.",
        &[
            STORE,
            must(body("consumer", Kind::Text, "name of the consumer")),
            must(body("id", Kind::Text, "id of the event")),
            REASON,
        ],
        One("Forgotten"),
        handler!(act::forget_inbox),
    )),
    get(
        "/inbox",
        "Lists the events that consumers accepted, largest event ids first; ids made by Postroom grow with time.",
        &[
            STORE,
            query("consumer", Kind::Text, "name of the consumer"),
            query("id", Kind::Text, "id of the event"),
            LIMIT,
            INBOX_PLACE,
        ],
        Pages("InboxRow"),
        handler!(look::inbox),
    ),
    worker(post(
        "/pull/{route}",
        "Leases events of a pull route to a worker. Waits up to `wait` for the first event.",
        &[
            ROUTE,
            STORE,
            body("limit", Kind::Number(1, 1000, 100), "maximum number of events"),
            body("wait", Kind::Duration, "time to wait for the first event, at most 20s"),
            body(
                "lease",
                Kind::Duration,
                "time that the worker may take, from 1s to the `lease_max` of the route; by default its `lease`",
            ),
        ],
        List("Leased"),
        handler!(pull::lease),
    )),
    worker(post(
        "/pull/{route}/settle",
        "Settles leased events with the worker's results: `{\"lease\", \"ok\": true}`, or `{\"lease\", \"error\", \"permanent\", \"retry_after\"}`.",
        &[ROUTE, STORE, must(body("results", Kind::Objects, "one result for each lease"))],
        One("Settled"),
        handler!(pull::settle),
    )),
    get("/relays", "Lists all relays that have registered.", &[], List("RelayRow"), handler!(look::relays)),
    get("/store", "Lists all stores.", &[], List("StoreRow"), handler!(look::stores)),
    get(
        "/verify",
        "Proves by counting, per route and lane, that no event was lost.",
        &[STORE],
        List("VerifyRow"),
        handler!(look::verify),
    ),
    get(
        "/audit",
        "Lists operator actions, newest first.",
        &[STORE, LIMIT, CURSOR],
        Pages("AuditRow"),
        handler!(look::audit),
    ),
    operator(get(
        "/config",
        "Lists the settings that this relay runs with and the origin of each, without secrets.",
        &[],
        List("Setting"),
        handler!(look::config),
    )),
    admin(get(
        "/tokens",
        "Lists tokens by name and role, without their secrets.",
        &[STORE],
        List("TokenRow"),
        handler!(look::tokens),
    )),
    secret(admin(post(
        "/tokens",
        "Creates a token and returns its secret, which is shown only once.",
        &[
            STORE,
            must(body("name", Kind::Text, "name of the token, under which the audit log records its actions")),
            must(body("role", Kind::Role, "role of the token: worker, viewer, operator or admin")),
            body("expires", Kind::Expiry, "time until the token expires, or `never`; 90 days by default"),
            body("routes", Kind::Texts, "routes that the token is limited to; required for the role worker"),
            body("only_tenant", Kind::Text, "tenant that the token is limited to"),
            REASON,
        ],
        Made("NewToken"),
        handler!(act::make_token),
    ))),
    secret(admin(post(
        "/tokens/{name}/rotate",
        "Replaces the secret of a token and returns the new one, which is shown only once.",
        &[
            path("name", "name of the token"),
            STORE,
            body("keep", Kind::Duration, "time for which the previous secret stays valid, one day by default"),
            REASON,
        ],
        Made("NewToken"),
        handler!(act::rotate_token),
    ))),
    Endpoint {
        verb: Verb::Delete,
        ..admin(post(
            "/tokens/{name}",
            "Revokes a token.",
            &[path("name", "name of the token"), STORE, REASON],
            One("Revoked"),
            handler!(act::revoke_token),
        ))
    },
];
