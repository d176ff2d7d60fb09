//! `postroom check`: one line and one code for monitoring plug-ins.

use std::time::Duration;

use postroom_core::RouteState;
use postroom_core::units::{format_duration, parse_duration};
use postroom_server::status::RouteLine;
use serde_json::json;

use crate::app::App;
use crate::commands::status;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::help;
use crate::output::{count, plain};
use crate::suggest;

/// Check that deliveries are on time, and print one line for a monitoring system
#[derive(Debug, clap::Args)]
#[command(after_help = help!(monitor:
    "postroom check",
    "postroom check --warn 30s --crit 5m",
    "postroom check --route orders --route mailer",
))]
pub(crate) struct CheckArgs {
    /// Lag of the oldest due delivery from which the result is a warning
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    warn: Duration,
    /// Lag of the oldest due delivery from which the result is critical
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    crit: Duration,
    /// Only this route; may be repeated
    #[arg(long = "route", value_name = "ROUTE")]
    routes: Vec<String>,
}

/// Level of a result, as defined for monitoring plug-ins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Ok,
    Warning,
    Critical,
    Unknown,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// Returns the exit code of the convention of plug-ins, which differs from the codes of other commands.
    fn exit(self) -> Exit {
        match self {
            Self::Ok => Exit::Done,
            Self::Warning => Exit::Failed,
            Self::Critical => Exit::Usage,
            Self::Unknown => Exit::Unreachable,
        }
    }
}

pub(crate) async fn run(app: &App, args: &CheckArgs) -> Outcome {
    let (level, said, routes) = match looked(app, args).await {
        Ok(routes) => judge(&routes, args),
        Err(failed) => {
            let why = failed.problems.first().map_or("it cannot be told", |problem| problem.message.as_str());
            (Level::Unknown, why.to_owned(), Vec::new())
        }
    };
    let answer = json!({ "level": level.as_str().to_lowercase(), "message": said, "routes": routes });
    app.global.output.one(&answer, || format!("{} - {said}", level.as_str()))?;
    Ok(level.exit())
}

async fn looked(app: &App, args: &CheckArgs) -> Result<Vec<RouteLine>, Failed> {
    if args.warn > args.crit {
        let (warn, crit) = (format_duration(args.warn), format_duration(args.crit));
        let message = format!("--warn {warn} is longer than --crit {crit}");
        return Err(Failed::new(Exit::Usage, message, "choose the shorter one for --warn"));
    }
    let mut report = status::collect(&app.config_with_stores()?, None).await;
    if let Some(error) = report.unanswered.pop().filter(|_| report.routes.is_empty()) {
        return Err(error.into());
    }
    let known: Vec<String> = report.routes.iter().map(|route| route.route.clone()).collect();
    if let Some(unknown) = args.routes.iter().find(|name| !known.contains(name)) {
        return Err(suggest::unknown("route", unknown, &known, "`postroom route ls` lists them"));
    }
    Ok(report.routes.into_iter().filter(|route| args.routes.is_empty() || args.routes.contains(&route.route)).collect())
}

/// Reports whether the store answered, and does not know whether a delivery is due.
fn is_unknown(route: &RouteLine) -> bool {
    route.due.is_none() && route.due_estimated
}

/// Returns the worst level, its message, and the routes it was measured on.
fn judge(routes: &[RouteLine], args: &CheckArgs) -> (Level, String, Vec<RouteLine>) {
    let of = |route: &RouteLine| {
        let oldest = Duration::try_from_secs_f64(route.oldest_due_seconds.unwrap_or(0.0)).unwrap_or_default();
        match route.state {
            RouteState::Down | RouteState::Halted | RouteState::CountsDiffer => Level::Critical,
            _ if oldest > args.crit => Level::Critical,
            RouteState::Misconfigured
            | RouteState::Disabled
            | RouteState::BreakerOpen
            | RouteState::HalfOpen
            | RouteState::Slowed
            | RouteState::Orphan => Level::Warning,
            // Somebody may have forgotten it.
            RouteState::Paused if route.due > Some(0) => Level::Warning,
            _ if oldest > args.warn || is_unknown(route) => Level::Warning,
            _ => Level::Ok,
        }
    };
    let Some(level) = routes.iter().map(of).max() else {
        return (Level::Unknown, "there is no route".to_owned(), Vec::new());
    };
    let words = |route: &RouteLine| {
        let mut words = route.route.clone();
        if route.state != RouteState::Running {
            words = format!("{words} {}", route.state.as_str().replace('_', " "));
        }
        if route.state == RouteState::Down && !route.message.is_empty() {
            // Behind a bar monitoring systems expect measurements.
            words = format!("{words}: {}", plain(&route.message, usize::MAX).replace('|', "/"));
        }
        if is_unknown(route) {
            words.push_str(": not known whether a delivery is due");
        }
        if let (RouteState::Paused, Some(due)) = (route.state, route.due) {
            words = format!("{words} with {due} due");
        }
        if let Some(oldest) = route.oldest_due_seconds.filter(|oldest| *oldest > args.warn.as_secs_f64()) {
            words = format!("{words} due for {oldest:.1} s");
        }
        words
    };
    let said: Vec<String> = routes.iter().filter(|route| of(route) == level && level != Level::Ok).map(words).collect();
    let on_time = || format!("{} on time", count(routes.len() as u64, "route"));
    let said = if said.is_empty() { on_time() } else { said.join(", ") };
    let measure = |route: &RouteLine| {
        let (warn, crit) = (args.warn.as_secs_f64(), args.crit.as_secs_f64());
        // `U` is a value that could not be found out.
        let oldest = route.oldest_due_seconds.map_or_else(|| "U".to_owned(), |oldest| format!("{oldest:.3}s"));
        format!("'{}'={oldest};{warn};{crit};0", route.route)
    };
    let measures: Vec<String> = routes.iter().map(measure).collect();
    (level, format!("{said} | {}", measures.join(" ")), routes.to_vec())
}

#[cfg(test)]
mod tests {
    use postroom_core::RouteSpec;
    use postroom_server::status::unasked;

    use super::*;

    fn judged(routes: &[(&str, RouteState, f64)]) -> (i32, String) {
        let args = CheckArgs { warn: Duration::from_secs(30), crit: Duration::from_mins(5), routes: Vec::new() };
        let routes: Vec<RouteLine> = routes
            .iter()
            .map(|(name, state, oldest)| RouteLine {
                oldest_due_seconds: (*state != RouteState::Down).then_some(*oldest),
                due: Some(if *oldest > 0.0 { 3 } else { 0 }),
                ..unasked("main", &RouteSpec::new(*name), *state, "")
            })
            .collect();
        let (level, said, _) = judge(&routes, &args);
        (level.exit() as i32, format!("{} - {said}", level.as_str()))
    }

    #[test]
    fn the_worst_route_decides_and_every_one_is_measured() {
        use RouteState::{BreakerOpen, Down, HalfOpen, Paused, Running, Slowed};
        for (routes, code, said) in [
            (
                &[("a", Running, 0.0), ("b", Paused, 0.0)][..],
                0,
                "OK - 2 routes on time | 'a'=0.000s;30;300;0 'b'=0.000s;30;300;0",
            ),
            (&[("a", Paused, 3.0)], 1, "WARNING - a paused with 3 due | 'a'=3.000s;30;300;0"),
            (
                &[("a", Running, 31.0), ("b", Running, 0.0)],
                1,
                "WARNING - a due for 31.0 s | 'a'=31.000s;30;300;0 'b'=0.000s;30;300;0",
            ),
            (&[("a", BreakerOpen, 0.0)], 1, "WARNING - a breaker open | 'a'=0.000s;30;300;0"),
            // A probe is no recovery: a monitoring system must not see an outage end at each of them.
            (&[("a", HalfOpen, 0.0)], 1, "WARNING - a half open | 'a'=0.000s;30;300;0"),
            (&[("a", Slowed, 0.0)], 1, "WARNING - a slowed | 'a'=0.000s;30;300;0"),
            (
                &[("a", Running, 31.0), ("b", Running, 301.5)],
                2,
                "CRITICAL - b due for 301.5 s | 'a'=31.000s;30;300;0 'b'=301.500s;30;300;0",
            ),
            (&[("a", Down, 0.0)], 2, "CRITICAL - a down | 'a'=U;30;300;0"),
            (&[], 3, "UNKNOWN - there is no route"),
        ] {
            assert_eq!(judged(routes), (code, said.to_owned()));
        }
    }
}
