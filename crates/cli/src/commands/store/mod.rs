//! `postroom store`: its tables in [`migrate`], the rest of its upkeep in [`upkeep`].

mod migrate;
mod upkeep;

use crate::app::App;
use crate::args::{Reason, StoreArg, help};
use crate::exit::Outcome;

/// Look after a store
#[derive(Debug, clap::Subcommand)]
pub(crate) enum StoreCommand {
    /// Make and change the store's tables
    #[command(subcommand)]
    Migrate(migrate::MigrateCommand),
    /// Print the SQL that makes one role per task with the least rights, to run as an administrator
    #[command(after_help = help!(store: "postroom store roles > roles.sql", "postroom store roles --store main | psql shop"))]
    Roles(StoreArg),
    /// Say how large the store is on its server, and who keeps it from shrinking
    #[command(after_help = help!(store: "postroom store stats", "postroom store stats -o json"))]
    Stats(StoreArg),
    /// Set sequences right that a restore or an upgrade has left behind, and deliver events that routes have passed
    #[command(after_help = help!(ask: "postroom store repair --dry-run", "postroom store repair --yes --reason 'logical upgrade'"))]
    Repair(UpkeepArgs),
    /// Say that the store lives on this server from now on: after a restore or an upgrade, never on a copy
    #[command(after_help = help!(ask: "postroom store accept-identity --dry-run", "postroom store accept-identity --yes --reason 'restored from backup'"))]
    AcceptIdentity(UpkeepArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct UpkeepArgs {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    reason: Reason,
}

pub(crate) async fn run(app: &App, command: StoreCommand) -> Outcome {
    match command {
        StoreCommand::Migrate(command) => migrate::run(app, command).await,
        StoreCommand::Roles(store) => upkeep::roles(app, &store).await,
        StoreCommand::Stats(store) => upkeep::stats(app, &store).await,
        StoreCommand::Repair(args) => upkeep::repair(app, &args).await,
        StoreCommand::AcceptIdentity(args) => upkeep::accept_identity(app, &args).await,
    }
}
