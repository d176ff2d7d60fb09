//! What teams call things. Compared in lower case and without anything but letters and digits: `AggregateId` is
//! `aggregate_id` is `aggregateid`.

/// Names of one part: those that leave no doubt, and those that often mean it. The first that fits counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names {
    pub(super) sure: &'static [&'static str],
    pub(super) maybe: &'static [&'static str],
}

pub(super) const EVENT_ID: Names = Names {
    sure: &["eventid", "messageid", "eventuuid", "messageuuid", "eventguid", "uuid", "guid"],
    maybe: &["externalid", "publicid", "ulid"],
};
pub(super) const EVENT_TYPE: Names = Names {
    sure: &["eventtype", "messagetype", "eventname", "type"],
    maybe: &[
        "messagename",
        "eventkind",
        "kind",
        "event",
        "name",
        "subject",
        "topic",
        "routingkey",
        "channel",
        "action",
    ],
};
pub(super) const PAYLOAD: Names = Names {
    sure: &["payload", "eventpayload", "messagepayload", "payloadjson", "eventdata", "messagebody", "eventbody"],
    maybe: &["body", "data", "content", "message", "event", "value", "json", "envelope", "contents"],
};
pub(super) const AGGREGATE_TYPE: Names = Names {
    sure: &["aggregatetype"],
    maybe: &["aggregatename", "entitytype", "resourcetype", "streamtype", "streamcategory", "modeltype", "aggregate"],
};
pub(super) const AGGREGATE_ID: Names = Names {
    sure: &["aggregateid"],
    maybe: &["aggregaterootid", "entityid", "streamid", "modelid", "objectid", "aggregatekey"],
};
pub(super) const KEY: Names = Names {
    sure: &["partitionkey", "eventkey", "messagekey", "orderingkey"],
    maybe: &["key", "resourceid", "shardkey", "kafkakey"],
};
pub(super) const TENANT: Names = Names {
    sure: &["tenantid", "tenant"],
    maybe: &["groupid", "organizationid", "organisationid", "orgid", "accountid", "companyid", "workspaceid"],
};
pub(super) const HEADERS: Names =
    Names { sure: &["headers", "messageheaders", "eventheaders"], maybe: &["metadata", "eventmetadata", "meta"] };
pub(super) const CORRELATION: Names = Names { sure: &["correlationid"], maybe: &["correlation", "requestid"] };
pub(super) const CAUSATION: Names = Names { sure: &["causationid"], maybe: &["causation"] };
pub(super) const SCHEMA_VERSION: Names = Names { sure: &["schemaversion", "eventversion"], maybe: &["payloadversion"] };
pub(super) const OCCURRED: Names = Names {
    sure: &["occurredat", "occurredon", "occurredonutc", "occurredatutc", "happenedat", "eventtime", "eventtimestamp"],
    maybe: &[],
};
pub(super) const CREATED: Names = Names {
    sure: &[
        "createdat",
        "created",
        "insertedat",
        "inserted",
        "addedat",
        "createdon",
        "createdonutc",
        "createdatutc",
        "createdtime",
        "creationtime",
        "createddate",
        "datecreated",
        "recordedat",
        "enqueuedat",
        "appendedat",
    ],
    maybe: &["timestamp", "ts", "occurredat", "occurredon", "occurredonutc", "happenedat", "eventtime", "time"],
};
pub(super) const SEQUENCE: Names = Names {
    sure: &["sequencenumber", "sequence", "seq", "globalposition", "seqno", "sequenceid", "eventnumber"],
    maybe: &["position", "offset"],
};
pub(super) const STATE: Names = Names {
    sure: &[
        "status",
        "state",
        "outboxstatus",
        "eventstatus",
        "messagestatus",
        "deliverystatus",
        "publishstatus",
        "publishingstatus",
        "dispatchstatus",
        "processingstatus",
        "processstatus",
        "sendstatus",
    ],
    maybe: &[],
};
pub(super) const ATTEMPTS: Names = Names {
    sure: &[
        "attempts",
        "attemptcount",
        "attemptscount",
        "retrycount",
        "retriescount",
        "retries",
        "deliveryattempts",
        "publishattempts",
        "errorscount",
        "errorcount",
        "failurecount",
        "failurescount",
        "tries",
        "numattempts",
        "retryattempts",
    ],
    maybe: &["failures", "retry"],
};
pub(super) const NEXT_ATTEMPT: Names = Names {
    sure: &[
        "nextattemptat",
        "nextattempt",
        "nextretryat",
        "nextretry",
        "nextretrytime",
        "nextattempttime",
        "availableat",
        "availablefrom",
        "retryat",
        "retryafter",
        "visibleat",
        "notbefore",
        "deliverafter",
    ],
    maybe: &["scheduledat", "scheduledfor", "runat", "dueat", "processafter"],
};
pub(super) const ERROR: Names = Names {
    sure: &["lasterror", "lasterrormessage", "errormessage", "error", "errorlog", "errordetails", "failurereason"],
    maybe: &["lastfailure", "errortext", "exception", "reason"],
};

/// What is done to an event that is delivered.
const DONE: [&str; 14] = [
    "published",
    "processed",
    "sent",
    "delivered",
    "dispatched",
    "completed",
    "done",
    "relayed",
    "handled",
    "finished",
    "emitted",
    "forwarded",
    "acked",
    "acknowledged",
];

/// A name as it is compared.
pub(crate) fn bare(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether it is the name of a time at which a row was done.
pub(crate) fn is_done_at(bare: &str) -> bool {
    let rest = DONE.iter().find_map(|verb| bare.strip_prefix(verb));
    rest.is_some_and(|rest| {
        matches!(rest, "at" | "on" | "time" | "date" | "onutc" | "atutc" | "utc" | "timestamp" | "ts")
    })
}

/// Whether it is the name of a flag: whether a row is done.
pub(super) fn is_done_flag(bare: &str) -> bool {
    let word = bare.strip_prefix("is").or_else(|| bare.strip_prefix("was")).unwrap_or(bare);
    DONE.contains(&word)
}

/// Whether it is the name of a flag that says the opposite.
pub(super) fn is_pending_flag(bare: &str) -> bool {
    let word = bare.strip_prefix("is").unwrap_or(bare);
    word == "pending"
        || word.strip_prefix("un").or_else(|| word.strip_prefix("not")).is_some_and(|rest| DONE.contains(&rest))
}

/// Whether a text of that name may be a JSON object.
pub(crate) fn may_be_object(name: &str) -> bool {
    let bare = bare(name);
    [PAYLOAD, HEADERS].iter().any(|names| names.sure.contains(&bare.as_str()) || names.maybe.contains(&bare.as_str()))
}

/// Whether it may tell a row's state by a word.
pub(crate) fn may_tell_state(name: &str) -> bool {
    let bare = bare(name);
    bare.ends_with("status") || bare.ends_with("state") || is_done_flag(&bare) || is_pending_flag(&bare)
}

/// What a key of a JSON object that tells a row's state begins with: nobody's business has such a status.
pub(crate) fn state_prefix(key: &str) -> Option<&str> {
    let stem = ["status", "state", "Status", "State"].iter().find_map(|end| key.strip_suffix(end))?;
    let known = ["outbox", "dispatch", "publish", "delivery", "relay", "queue"];
    known.iter().any(|word| bare(stem).starts_with(word)).then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_however_they_are_spelt() {
        for name in ["aggregate_id", "AggregateId", "aggregateid", "AGGREGATE-ID", "aggregate.id"] {
            assert_eq!(bare(name), "aggregateid");
        }
        assert!(is_done_at(&bare("ProcessedOnUtc")) && is_done_at("publishedat") && !is_done_at("sentiment"));
        assert!(is_done_flag(&bare("is_processed")) && !is_done_flag("processing"));
        assert!(is_pending_flag("unpublished") && is_pending_flag("pending") && !is_pending_flag("under"));
    }

    #[test]
    fn a_status_inside_a_payload_is_the_outboxs_only_if_it_says_so() {
        assert_eq!(state_prefix("outbox_status"), Some("outbox_"));
        assert_eq!(state_prefix("dispatchState"), Some("dispatch"));
        assert_eq!((state_prefix("status"), state_prefix("order_status")), (None, None));
    }
}
