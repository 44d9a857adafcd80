//! What a [`Database`](crate::Database) needs to know: [`DatabaseSettings`]; the URL of a database:
//! [`DatabaseUrl`].

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use wire::hash::HashKey;

/// Settings of the connection to a database.
#[derive(Clone)]
pub struct DatabaseSettings {
    /// Where it is, and who connects.
    pub url: DatabaseUrl,
    /// Whose tables it has.
    pub schema: SchemaKind,
    /// How often it is asked for changes without a notification.
    pub poll: Duration,
    /// Name of this node.
    pub node: String,
    /// Longest wait for a connection, a statement or a commit.
    pub timeout: Duration,
    /// How long changes are kept in the database.
    pub keep_changes: Duration,
    /// TLS and the certificates that servers are verified with; `None`: without TLS.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// Hash key of the names of zones.
    pub key: HashKey,
    /// How names of hosts are resolved; `None`: by the system.
    pub hosts: Option<HostLookup>,
    /// Folder of the file with how far this node is; `None`: that is not kept from one run to the next.
    pub state: Option<PathBuf>,
}

/// Returns the addresses of a host, preferred ones first, or why there are none.
pub type HostLookup =
    Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, String>> + Send>> + Send + Sync>;

/// Whose tables a database has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchemaKind {
    /// Those of nomen, in the schema `nomen`.
    #[default]
    Own,
    /// Those of the gpgsql backend of PowerDNS, which are read and not changed.
    PowerDns,
}

/// A URL such as `postgresql://user:password@host1,host2:5433/name`, or the words that libpq accepts in its
/// place. `Display` and `Debug` leave the password out.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl {
    config: Config,
}

impl DatabaseUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it, without the password.
    pub fn parse(text: &str) -> Result<DatabaseUrl, String> {
        for word in ["sslmode", "sslrootcert", "sslcert", "sslkey", "sslnegotiation", "channel_binding"] {
            if text.contains(&format!("{word}=")) {
                return Err(format!("{word} has no effect here: TLS is set by `tls` and `ca-file`"));
            }
        }
        let config = Config::from_str(text).map_err(|fault| {
            let why =
                std::error::Error::source(&fault).map_or_else(|| fault.to_string(), ToString::to_string);
            format!("no URL of a PostgreSQL database: {why}")
        })?;
        if config.get_hosts().is_empty() {
            return Err(
                "the URL has no host: postgresql://user@host/database, or ?host=/path/of/socket".into()
            );
        }
        if config.get_ports().len() > 1 && config.get_ports().len() != config.get_hosts().len() {
            return Err("the URL has another number of ports than of hosts".into());
        }
        if config.get_user().is_none() {
            return Err("the URL has no user: postgresql://user@host/database".into());
        }
        Ok(DatabaseUrl { config })
    }

    /// The same URL with this password, unless it has one.
    pub fn or_password(mut self, password: &str) -> DatabaseUrl {
        if self.config.get_password().is_none() {
            self.config.password(password);
        }
        self
    }

    /// Whether all hosts are Unix sockets or loopback addresses, so that no network sees the connection.
    pub fn is_local(&self) -> bool {
        self.config.get_hosts().iter().all(|host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => {
                name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
        })
    }

    /// Folders of the Unix sockets among the hosts.
    pub fn socket_folders(&self) -> impl Iterator<Item = &std::path::Path> {
        self.config.get_hosts().iter().filter_map(|host| match host {
            Host::Unix(folder) => Some(&**folder),
            Host::Tcp(_) => None,
        })
    }

    /// The hosts, in order.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.config.get_hosts().iter()
    }

    /// The port of the host at an index.
    pub(crate) fn port(&self, at: usize) -> Option<u16> {
        let ports = self.config.get_ports();
        ports.get(at).or(ports.first().filter(|_| ports.len() == 1)).copied()
    }

    /// The settings for the client, with or without TLS.
    pub(crate) fn config(&self, tls: bool) -> Config {
        let mut config = self.config.clone();
        config.ssl_mode(if tls { SslMode::Require } else { SslMode::Disable });
        config
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgresql://")?;
        write!(f, "{}@", self.config.get_user().unwrap_or_default())?;
        for (at, host) in self.config.get_hosts().iter().enumerate() {
            f.write_str(if at > 0 { "," } else { "" })?;
            match host {
                Host::Tcp(name) if name.contains(':') => write!(f, "[{name}]")?,
                Host::Tcp(name) => f.write_str(name)?,
                Host::Unix(folder) => write!(f, "{}", folder.display())?,
            }
            if let Some(port) = self.port(at) {
                write!(f, ":{port}")?;
            }
        }
        write!(f, "/{}", self.config.get_dbname().or(self.config.get_user()).unwrap_or_default())
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for DatabaseSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseSettings({}, {:?}, node {})", self.url, self.schema, self.node)
    }
}
