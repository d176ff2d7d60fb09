//! `postroom store`: its tables in [`migrate`], the rest of its maintenance in [`maintenance`].

mod maintenance;
mod migrate;

use crate::app::App;
use crate::exit::Outcome;
use crate::options::{Reason, StoreArg, help};

/// Migrate, inspect and repair a store
#[derive(Debug, clap::Subcommand)]
pub(crate) enum StoreCommand {
    /// Create, migrate and drop the tables of a store
    #[command(subcommand)]
    Migrate(migrate::MigrateCommand),
    /// Print the SQL that creates least-privilege roles, one per task, for an administrator to run
    #[command(after_help = help!(store: "postroom store roles > roles.sql", "postroom store roles --store main | psql shop"))]
    Roles(StoreArg),
    /// Show the size of a store on its server, and the sessions that keep it from shrinking
    #[command(after_help = help!(store: "postroom store stats", "postroom store stats -o json"))]
    Stats(StoreArg),
    /// Repair sequences after a restore or an upgrade, and deliver events that routes have passed
    #[command(after_help = help!(ask: "postroom store repair --dry-run", "postroom store repair --yes --reason 'logical upgrade'"))]
    Repair(MaintenanceArgs),
    /// Accept a new server identity after a restore or an upgrade; never run this on a copy
    #[command(after_help = help!(ask: "postroom store accept-identity --dry-run", "postroom store accept-identity --yes --reason 'restored from backup'"))]
    AcceptIdentity(MaintenanceArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct MaintenanceArgs {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    reason: Reason,
}

pub(crate) async fn run(app: &App, command: StoreCommand) -> Outcome {
    match command {
        StoreCommand::Migrate(command) => migrate::run(app, command).await,
        StoreCommand::Roles(store) => maintenance::roles(app, &store).await,
        StoreCommand::Stats(store) => maintenance::stats(app, &store).await,
        StoreCommand::Repair(args) => maintenance::repair(app, &args).await,
        StoreCommand::AcceptIdentity(args) => maintenance::accept_identity(app, &args).await,
    }
}
