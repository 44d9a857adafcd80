//! The command line: every verb and option, in one definition from which the man page and the completions are
//! also generated. `server` and `tools` implement the verbs; `run` only calls them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use config::exit_status::{EXIT_OK, EXIT_OUTSIDE, EXIT_USAGE};
use config::upstreams::UpstreamServer;
use server::config_source::ConfigSource;
use server::serve::{ServeOptions, trial};
use tools::args::{CheckArgs, CtlArgs, MigrateArgs, QueryArgs, TokenArgs, UpdateArgs, ZoneVerb, forwarder};
use tools::database::args::DatabaseVerb;
use tools::key_args::KeyVerb;
use tools::query::as_dig;
use wording::reason;

const EXIT_HELP: &str = "\
Exit status:
  0  success
  1  faults were found: a bad configuration or zone, a refused control command, an answer with an error code
  2  the command line was wrong
  3  an external failure: no server answered, a file or an address could not be opened

Every verb but serve ends by SIGPIPE, without a message, when the reader of its output closes, as with \
`| head`; shells report status 141.";

/// A DNS server: authoritative service, resolver and forwarder.
///
/// Without `--config`, `nomen serve` needs no privileges: it listens on loopback at port 5300 and serves an
/// example. `nomen serve --resolve` answers all other names as well.
#[derive(Debug, Parser)]
#[command(name = "nomen", version, after_help = EXIT_HELP, max_term_width = 100, propagate_version = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Answer queries until stopped.
    ///
    /// Sockets that systemd passes (socket activation: LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES) are used in
    /// place of new ones; docs/UPGRADES.md explains it.
    Serve(ServeArgs),
    /// Check a configuration and every zone it names.
    Check(CheckArgs),
    /// Translate the configuration of another server for nomen.
    ///
    /// Prints the configuration to standard output. Statements that have no counterpart, or a different
    /// meaning, are reported on standard error with file and line; none is dropped silently.
    /// docs/MIGRATION.md lists the translations.
    Migrate(MigrateArgs),
    /// Work on zone files.
    #[command(subcommand)]
    Zone(ZoneVerb),
    /// Work on DNSSEC keys of zones.
    #[command(subcommand)]
    Key(KeyVerb),
    /// Query a server and print the answer.
    Query(QueryArgs),
    /// Change a zone by dynamic updates, with a script in the language of nsupdate.
    Update(UpdateArgs),
    /// Control the running server.
    Ctl(CtlArgs),
    /// Make a token of the HTTP API.
    ///
    /// Prints its secret on standard error, and the block for the configuration, which has only the hash of
    /// the secret, on standard output. docs/API.md explains tokens.
    Token(TokenArgs),
    /// Work on a PostgreSQL database with zones.
    ///
    /// docs/DATABASE.md explains it.
    #[command(subcommand)]
    Database(DatabaseVerb),
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one page for each verb.
    Man {
        /// Folder to write `nomen.1`, `nomen-serve.1` and so on to, and `nomen.toml.5`.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

/// `nomen serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Configuration file. Without it nomen serves the built-in example.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Forward all queries to this server, as ADDRESS or ADDRESS@PORT, over TLS as ADDRESS#NAME or
    /// ADDRESS@PORT#NAME, over HTTPS as https://NAME/PATH@ADDRESS, over QUIC as quic://NAME@ADDRESS, or by
    /// Oblivious DoH as odoh://NAME/PATH@ADDRESS?proxy=https://NAME/PATH@ADDRESS; may be given several times.
    /// Instead of a configuration file.
    #[arg(long, value_name = "SERVER", value_parser = forwarder, conflicts_with = "config")]
    pub(crate) forward: Vec<UpstreamServer>,
    /// Resolve all queries from the root servers down, for this machine. Instead of a configuration file.
    #[arg(long, conflicts_with_all = ["config", "forward"])]
    pub(crate) resolve: bool,
    /// Do not start unless every zone loads.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Replace the running server that has this configuration: take over its listening sockets, and start
    /// when it has ended. Meanwhile queries wait in the sockets.
    #[arg(long, conflicts_with_all = ["forward", "resolve"], requires = "config")]
    pub(crate) take_over: bool,
    /// Store the listening sockets with systemd, so that a restart loses no query (FileDescriptorStoreMax= in
    /// the unit).
    #[arg(long)]
    pub(crate) store_sockets: bool,
}

impl From<ServeArgs> for ServeOptions {
    fn from(args: ServeArgs) -> Self {
        let ServeArgs { config, forward, resolve, strict, take_over, store_sockets } = args;
        let source = match config {
            Some(path) => ConfigSource::File(path),
            None if resolve => ConfigSource::Resolve,
            None if forward.is_empty() => ConfigSource::BuiltIn,
            None => ConfigSource::Forward(forward),
        };
        ServeOptions { source, strict, take_over, store_sockets }
    }
}

/// Parses the command line. Returns the exit code as an error if there is nothing to run.
fn parse() -> Result<Cli, u8> {
    let arguments = as_dig::command_line(std::env::args_os().collect());
    Cli::try_parse_from(&arguments).map_err(|fault| {
        // If the output cannot be written, only the exit code reports the fault.
        let _ = fault.print();
        let is_query = arguments.get(1).is_some_and(|verb| verb == "query");
        match fault.use_stderr() {
            true if is_query && arguments.iter().any(|word| word == "--dig") => as_dig::USAGE,
            true => EXIT_USAGE,
            false => EXIT_OK,
        }
    })
}

/// Parses the command line and runs the verb.
pub(crate) fn run() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(code) => return ExitCode::from(code),
    };
    if !matches!(cli.verb, Verb::Serve(_)) {
        tools::end_with_the_reader();
    }
    let code = match cli.verb {
        Verb::Serve(args) => server::serve::run(&args.into()),
        Verb::Check(args) => tools::check::run(&args, trial::check),
        Verb::Migrate(args) => tools::migrate::run(&args),
        Verb::Zone(ZoneVerb::Check(args)) => tools::zone_check::run(&args),
        Verb::Zone(ZoneVerb::Dump(args)) => tools::zone_dump::run(&args),
        Verb::Zone(ZoneVerb::Diff(args)) => tools::zone_diff::run(&args),
        Verb::Zone(ZoneVerb::Digest(args)) => tools::zone_digest::run(&args),
        Verb::Zone(ZoneVerb::Sign(args)) => tools::zone_sign::run(&args),
        Verb::Zone(ZoneVerb::Compile(args)) => tools::zone_compile::run(&args),
        Verb::Key(verb) => tools::keys::run(&verb),
        Verb::Query(args) => tools::query::run(&args),
        Verb::Update(args) => tools::update::run(&args),
        Verb::Ctl(args) => tools::ctl::run(&args),
        Verb::Token(args) => tools::token::run(&args),
        Verb::Database(verb) => tools::database::run(&verb),
        Verb::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "nomen", &mut text);
            tools::print_out(&String::from_utf8_lossy(&text));
            EXIT_OK
        }
        Verb::Man { out } => man(out.as_deref()),
    };
    ExitCode::from(code)
}

/// Prints the manual page of the program to standard output; or writes a page for each verb, and one for the
/// configuration, to a folder.
fn man(out: Option<&Path>) -> u8 {
    let result = match out {
        Some(folder) => clap_mangen::generate_to(Cli::command(), folder)
            .and_then(|()| std::fs::write(folder.join("nomen.toml.5"), config::reference::man_page())),
        None => clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout()),
    };
    match result {
        Ok(()) => EXIT_OK,
        Err(e) => {
            eprintln!("nomen: cannot write the manual page: {}", reason(&e));
            EXIT_OUTSIDE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn words_of_a_query_come_in_any_order() {
        let cli = Cli::try_parse_from([
            "nomen",
            "query",
            "@127.0.0.1",
            "example.com",
            "-p",
            "5300",
            "MX",
            "+short",
        ]);
        let Ok(Cli { verb: Verb::Query(query) }) = cli else { panic!("{cli:?}") };
        assert_eq!(query.words, ["@127.0.0.1", "example.com", "MX", "+short"]);
        assert_eq!(query.port, Some(5300));
        assert!(Cli::try_parse_from(["nomen", "query", "-x", "192.0.2.1"]).is_ok());
        assert!(Cli::try_parse_from(["nomen", "query"]).is_err());
    }
}
