//! Arguments of `nomen database`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const CHECK_HELP: &str = "\
Exit status:
  0  no faults
  1  faults were found
  2  the command line was wrong
  3  the database cannot be reached";

const IMPORT_HELP: &str = "\
Zone names of files: NAME.zone, as `pattern` of [template.X] has it. Each zone is one transaction: one that fails does \
not affect the others. Running nodes serve an imported zone at once.

Exit status:
  0  all zones are in the database
  1  some were refused: bad records, or the database has them already (--replace)
  2  the command line was wrong
  3  the database or a source cannot be reached";

const SET_HELP: &str = "\
Sections are tables of a configuration file: [[policy.list]], [[policy.zone]], [[policy.group]], [[policy.schedule]], \
[[api.token]], [[tsig-key]], [template.X] and [dnssec-policy.X]. All of a text are set, or none. Running nodes apply them \
at once. A new one comes after those of its kind, and one that changes keeps its place.

Exit status:
  0  all sections are set
  1  the text or a section is bad, or the configuration file could not be used with it; nothing was changed
  2  the command line was wrong
  3  the database or a file cannot be read";

/// `nomen database`.
#[derive(Debug, Subcommand)]
pub enum DatabaseVerb {
    /// Create the tables of nomen, in the schema `nomen`.
    ///
    /// The role needs the privilege CREATE on the database. docs/DATABASE.md has the privileges that nodes
    /// need.
    Init(DatabaseInitArgs),
    /// Bring the tables of an older version of nomen to this one.
    Migrate(DatabaseTargetArgs),
    /// Check the connection, the privileges, the tables and every record.
    ///
    /// With `schema = "powerdns"`: reads every domain, and shows those that would not be served.
    #[command(after_help = CHECK_HELP)]
    Check(DatabaseCheckArgs),
    /// Copy zones into the database.
    #[command(after_help = IMPORT_HELP)]
    Import(DatabaseImportArgs),
    /// Write the zones of the database to zone files, and the sections of the configuration to sections.toml.
    Export(DatabaseExportArgs),
    /// Set sections of the configuration that all nodes share.
    ///
    /// With a configuration file, a section that a node with this file could not use is refused.
    #[command(after_help = SET_HELP)]
    Set(DatabaseSetArgs),
    /// Print sections of the configuration that all nodes share, in TOML with their secrets.
    Get(DatabaseGetArgs),
    /// Remove a section of the configuration that all nodes share.
    Unset(DatabaseUnsetArgs),
}

/// Which database.
#[derive(Debug, Clone, Args)]
pub struct DatabaseTargetArgs {
    /// Configuration file: the database of its [database].
    #[arg(short, long, value_name = "FILE", default_value = "nomen.toml")]
    pub config: PathBuf,
    /// URL of the database instead, such as postgresql://nomen@db.example.com/nomen. A password is better in
    /// the variable PGPASSWORD or in a file.
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "url_file"])]
    pub url: Option<String>,
    /// File whose first line is the URL.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub url_file: Option<PathBuf>,
    /// With --url or --url-file: connect without TLS to a host other than this one.
    #[arg(long)]
    pub no_tls: bool,
    /// With --url or --url-file: PEM file with the certificates of the authorities that may have issued the
    /// database's certificate. Default: those that the system trusts.
    #[arg(long, value_name = "FILE", conflicts_with = "no_tls")]
    pub ca_file: Option<PathBuf>,
}

/// `nomen database init`.
#[derive(Debug, Args)]
pub struct DatabaseInitArgs {
    /// Which database.
    #[command(flatten)]
    pub target: DatabaseTargetArgs,
    /// Role of the nodes, if it is another one: gets the privileges that they need.
    #[arg(long, value_name = "ROLE")]
    pub grant: Option<String>,
}

/// `nomen database check`.
#[derive(Debug, Args)]
pub struct DatabaseCheckArgs {
    /// Which database.
    #[command(flatten)]
    pub target: DatabaseTargetArgs,
    /// Whose tables it has, with --url or --url-file.
    #[arg(long, value_name = "SCHEMA", value_enum)]
    pub schema: Option<SchemaWord>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Whose tables a database has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SchemaWord {
    /// Those of nomen.
    Nomen,
    /// Those of the gpgsql backend of PowerDNS.
    Powerdns,
}

/// `nomen database import`.
#[derive(Debug, Args)]
pub struct DatabaseImportArgs {
    /// Which database.
    #[command(flatten)]
    pub target: DatabaseTargetArgs,
    /// Zone files, or folders of them.
    #[arg(value_name = "PATH", required_unless_present_any = ["from_config", "from_powerdns"])]
    pub paths: Vec<PathBuf>,
    /// Name of the zone, for one file whose name is another one.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from_config", "from_powerdns"])]
    pub zone: Option<String>,
    /// Import the zones of a configuration, those of its folders included.
    #[arg(long, value_name = "FILE", conflicts_with = "paths")]
    pub from_config: Option<PathBuf>,
    /// Import all domains of a database with the tables of PowerDNS, by its URL. The variable PGPASSWORD
    /// applies to both databases.
    #[arg(long, value_name = "URL", conflicts_with_all = ["paths", "from_config"])]
    pub from_powerdns: Option<String>,
    /// Template (`[template.X]`) that nodes take the keys of these zones from. Default: the one of
    /// [database].
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,
    /// Folder with keys of the zones, as a server has them that has signed them: K*.key, K*.private and
    /// K*.state. They come into the database with new zones, for nodes that sign these.
    #[arg(long, value_name = "FOLDER", conflicts_with = "from_powerdns")]
    pub keys: Option<PathBuf>,
    /// Replace zones that the database has already.
    #[arg(long)]
    pub replace: bool,
    /// Change nothing, only report what would be done.
    #[arg(long)]
    pub dry_run: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `nomen database export`.
#[derive(Debug, Args)]
pub struct DatabaseExportArgs {
    /// Which database.
    #[command(flatten)]
    pub target: DatabaseTargetArgs,
    /// Whose tables it has, with --url or --url-file.
    #[arg(long, value_name = "SCHEMA", value_enum)]
    pub schema: Option<SchemaWord>,
    /// Folder to write NAME.zone to. Created if it is missing.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Only this zone; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub zone: Vec<String>,
    /// Replace existing files.
    #[arg(long)]
    pub replace: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `nomen database set`.
#[derive(Debug, Args)]
pub struct DatabaseSetArgs {
    /// Which database.
    #[command(flatten)]
    pub target: DatabaseTargetArgs,
    /// Files with sections, or `-` for standard input.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Remove all other sections of the kinds that the files have, and order these as the files do.
    #[arg(long)]
    pub only: bool,
    /// Change nothing, only check.
    #[arg(long)]
    pub dry_run: bool,
}

/// `nomen database get`.
#[derive(Debug, Args)]
pub struct DatabaseGetArgs {
    /// Which database.
    #[command(flatten)]
    pub target: DatabaseTargetArgs,
    /// The kind of sections, such as policy.list. Default: all.
    #[arg(value_name = "KIND")]
    pub kind: Option<String>,
    /// The name of the section. Default: all of the kind.
    #[arg(value_name = "NAME", requires = "kind")]
    pub name: Option<String>,
    /// Print who changed what and when instead, the newest change first. `keep-changes` of [database] is how
    /// long the database has them.
    #[arg(long)]
    pub history: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `nomen database unset`.
#[derive(Debug, Args)]
pub struct DatabaseUnsetArgs {
    /// Which database.
    #[command(flatten)]
    pub target: DatabaseTargetArgs,
    /// The kind of the section, such as policy.list.
    #[arg(value_name = "KIND")]
    pub kind: String,
    /// The name of the section.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Change nothing, only check.
    #[arg(long)]
    pub dry_run: bool,
}

impl DatabaseTargetArgs {
    /// Whether the database is that of a configuration file.
    pub(super) fn has_config(&self) -> bool {
        self.url.is_none() && self.url_file.is_none()
    }
}
