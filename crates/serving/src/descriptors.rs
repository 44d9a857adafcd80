//! File descriptors: the share of each part of the server, and a warning when none is left.
//!
//! TCP clients can take up to `tcp-connections`. If the process limit does not suffice for these and
//! everything else, the shares of clients and of upstream sockets are reduced, so that upstream sockets, the
//! control socket and files always have some.

use std::time::Duration;

use tracing::warn;

use config::Settings;
use telemetry::process::max_descriptors;

/// Descriptors for logs, zone files, state files, and what threads wait on.
const OTHERS: usize = 128;
/// Descriptors of a worker besides its sockets: what it waits on, and upstream sockets that it opens ahead or
/// has not closed yet.
const PER_WORKER: usize = 32;
/// Most queries to the servers of parents at a time.
pub(crate) const PARENT_QUERIES: usize = 32;
/// Most pushes of DS records to servers of parents at a time.
pub const DS_PUSHES: usize = 16;
/// Descriptors of these: a lookup by the resolvers of the system opens two sockets, each other query one, and
/// each push one.
const PARENTS: usize = 2 * PARENT_QUERIES + DS_PUSHES;
/// Connections to the database: one that reads, one that writes, and one of each that is opened in its place.
const DATABASE: usize = 4;
/// Connections to the CA of certificates: one, and another address that is tried beside it.
const ISSUING: usize = 2;
/// Connections to servers of lists: four fetches, each with another address that is tried beside it.
const FETCHES: usize = 8;
/// Part of the process limit that connections and upstream sockets have at least, whatever others may need:
/// most descriptors of others are not in use at once.
const LEAST_PART: usize = 4;
/// Interval of the check for sockets that could not be opened.
const SOCKET_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The descriptor shares of the parts of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorShares {
    /// The limit of the process.
    limit: usize,
    /// The sum that all parts may need.
    wanted: usize,
    /// TCP connections of clients.
    pub tcp: usize,
    /// The configured number of TCP connections.
    tcp_wanted: usize,
    /// Sockets to other servers.
    pub upstream: usize,
    /// The largest number of sockets to other servers.
    upstream_wanted: usize,
}

impl DescriptorShares {
    /// Returns the shares within the process limit.
    pub fn of(settings: &Settings) -> Self {
        let limit =
            max_descriptors().map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        Self::within(limit, settings)
    }

    fn within(limit: usize, settings: &Settings) -> Self {
        let (tcp_wanted, _) = settings.server.tcp.limits();
        let addresses: usize = settings.listens.iter().map(|listen| listen.addr.len()).sum();
        let listening = settings.server.net_config().workers * (2 * addresses + PER_WORKER);
        let metrics = settings.metrics.as_ref().map_or(0, |metrics| metrics.connections.0);
        let api = settings.api.as_ref().map_or(0, |api| api.connections.0);
        let tasks = [
            // Only a server with a state folder signs zones.
            (settings.server.storage.dir.is_some(), PARENTS),
            (settings.database.is_some(), DATABASE),
            (settings.acme.is_some(), ISSUING),
            // Lists may come from the database, too.
            (settings.database.is_some() || !settings.lists.is_empty(), FETCHES),
        ];
        let tasks: usize = tasks.iter().filter(|(is_on, _)| *is_on).map(|(_, count)| count).sum();
        let others = OTHERS + listening + settings.control.connections.0 + metrics + api + tasks;
        let of_resolver = settings.recursive().map_or(0, |_| net::OutgoingConfig::default().links);
        let transfers = &settings.transfers;
        let upstream_wanted = of_resolver + transfers.incoming.0 + transfers.notify_in_flight.0;
        let wanted = others + tcp_wanted + upstream_wanted;
        let rest = limit.saturating_sub(others).max(limit / LEAST_PART);
        let (tcp, upstream) = if tcp_wanted + upstream_wanted <= rest {
            (tcp_wanted, upstream_wanted)
        } else {
            // A side that needs less than half leaves the rest to the other.
            let upstream = upstream_wanted.min((rest / 2).max(rest.saturating_sub(tcp_wanted))).max(1);
            (tcp_wanted.min(rest.saturating_sub(upstream)).max(1), upstream)
        };
        DescriptorShares { limit, wanted, tcp, tcp_wanted, upstream, upstream_wanted }
    }

    /// Returns the largest number of sockets for transfers, NOTIFY and refreshes of secondary zones.
    pub fn for_zones(&self) -> usize {
        if self.limit < self.wanted { self.upstream } else { self.limit / 2 }
    }

    /// Returns a warning for the operator if the limit does not suffice.
    pub fn shortage(&self) -> Option<String> {
        let Self { limit, wanted, tcp, tcp_wanted, upstream, upstream_wanted } = self;
        (limit < wanted).then(|| {
            format!(
                "the limit of open files is {limit}, and up to {wanted} may be needed: at most {tcp} TCP \
                connections of clients (`tcp-connections` is {tcp_wanted}) and {upstream} sockets to other \
                servers (of {upstream_wanted}) are opened at a time; raise the limit (`LimitNOFILE=` of the \
                service, `ulimit -n`), or lower `tcp-connections`"
            )
        })
    }

    /// Returns the shares, and logs a warning if the limit does not suffice.
    pub fn with_warning(settings: &Settings) -> Self {
        let shares = Self::of(settings);
        if let Some(shortage) = shares.shortage() {
            warn!("{shortage}");
        }
        shares
    }
}

/// Logs, at most every ten seconds, how many sockets to other servers could not be opened for lack of file
/// descriptors; `exhausted` returns their number since the start.
pub async fn watch(exhausted: impl Fn() -> u64 + Send) {
    let (mut ticks, mut before) = (tokio::time::interval(SOCKET_CHECK_INTERVAL), exhausted());
    loop {
        ticks.tick().await;
        let now = exhausted();
        if now > before {
            let limit = max_descriptors().unwrap_or_default();
            warn!(
                sockets = now - before,
                limit,
                "no file descriptor was left for sockets to other servers, whose clients get SERVFAIL: \
                raise the limit of open files (`LimitNOFILE=` of the service, `ulimit -n`), or lower \
                `tcp-connections`"
            );
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_to_other_servers_had_no_descriptors_left() {
        let settings = Settings::default();
        let (wanted, _) = settings.server.tcp.limits();
        let all = DescriptorShares::within(usize::MAX, &settings);
        assert_eq!((all.tcp, all.upstream, all.shortage()), (wanted, all.upstream_wanted, None));
        let enough = DescriptorShares::within(all.wanted, &settings);
        assert_eq!((enough.tcp, enough.upstream, enough.shortage()), (wanted, all.upstream, None));
        for limit in [0, 64, 256, 1024, 4096, all.wanted - 1] {
            let few = DescriptorShares::within(limit, &settings);
            let others = all.wanted - all.tcp - all.upstream;
            let rest = limit.saturating_sub(others).max(limit / LEAST_PART);
            assert!(few.tcp >= 1 && few.upstream >= 1 && few.tcp + few.upstream <= rest.max(2), "{few:?}");
            assert!(few.upstream == all.upstream || few.upstream >= rest / 2, "{few:?}");
            let shortage = few.shortage().expect("a warning");
            assert!(
                shortage.contains(&format!("open files is {limit}, and up to {}", all.wanted)),
                "{shortage}"
            );
        }
    }

    #[test]
    fn each_part_has_descriptors_of_its_own() {
        let of = |text: &str| {
            let path = std::path::Path::new("/");
            let settings =
                config::read_text("nomen.toml", text.to_owned(), path).expect(text).config.settings;
            DescriptorShares::within(usize::MAX, &settings).wanted
        };
        let plain = of("");
        let more = |text: &str| of(text) - plain;
        assert_eq!(more("[server]\nstate-dir = \"/s\"\n"), PARENTS);
        let api = "[api]\nlisten = [\"127.0.0.1@8081\"]\nconnections = 50\n";
        assert_eq!(more(api), 50);
        let list = "[resolver]\n[[policy.list]]\nname = \"a\"\nurl = \"https://a.example/l\"\n";
        assert_eq!(more(list) - more("[resolver]\n"), FETCHES);
        let database =
            "[server]\nstate-dir = \"/s\"\n[database]\nurl = \"postgresql://nomen@db.example/nomen\"\n";
        assert_eq!(more(database), PARENTS + DATABASE + FETCHES);
    }

    /// A limit below what others may need at most leaves clients and other servers more than one descriptor.
    #[test]
    fn few_descriptors_are_for_all_parts() {
        let few = DescriptorShares::within(64, &Settings::default());
        assert!(few.tcp >= 8, "{few:?}");
    }
}
