//! `postroom man`: the manual, one page per command, made from the same tree as `--help`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap_mangen::Man;
use serde_json::json;

use crate::app::App;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::help;
use crate::output::{count, print};

/// Print the manual page, or write one page per command into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = help!(plain:
    "postroom man | man -l -",
    "postroom man --dir /usr/local/share/man/man1",
))]
pub(crate) struct ManArgs {
    /// Write every page into this folder, which is created if missing
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(app: &App, tree: clap::Command, args: &ManArgs) -> Outcome {
    let pages = pages(tree)?;
    let Some(dir) = &args.dir else {
        // The first is that of the program itself.
        print(pages.first().map_or("", |(_, page)| page.trim_end()))?;
        return Ok(Exit::Done);
    };
    if !app.global.dry_run {
        write(dir, &pages).map_err(|error| {
            let message = format!("cannot write into {}: {error}", dir.display());
            Failed::new(Exit::Usage, message, "name a folder you may write with --dir")
        })?;
    }
    let files: Vec<&str> = pages.iter().map(|(file, _)| file.as_str()).collect();
    let answer = json!({ "dir": dir, "files": files });
    let wrote = if app.global.dry_run { "would write" } else { "wrote" };
    let pages = count(files.len() as u64, "page");
    app.global.output.one(&answer, || format!("{wrote} {pages} into {}", dir.display()))?;
    Ok(Exit::Done)
}

fn write(dir: &Path, pages: &[(String, String)]) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    pages.iter().try_for_each(|(file, page)| fs::write(dir.join(file), page))
}

/// Renders every page, with the name of its file, a parent before its children.
fn pages(mut tree: clap::Command) -> io::Result<Vec<(String, String)>> {
    tree.build();
    let mut pages = Vec::new();
    collect(&tree, &mut pages)?;
    Ok(pages)
}

fn collect(command: &clap::Command, pages: &mut Vec<(String, String)>) -> io::Result<()> {
    // The version stands where others have a date: the same sources make the same pages.
    let man = Man::new(command.clone()).date(env!("CARGO_PKG_VERSION")).source("Postroom").manual("Postroom manual");
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = String::from_utf8(page).map_err(io::Error::other)?;
    // The end of `--help`, with the headings that readers of manuals look for.
    let page = page.replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n");
    let page = page.replace("\n\nExit codes: ", "\n.SH \"EXIT STATUS\"\n");
    pages.push((man.get_filename(), page));
    // `help` prints what the pages of the others say.
    command.get_subcommands().filter(|command| command.get_name() != "help").try_for_each(|c| collect(c, pages))
}
