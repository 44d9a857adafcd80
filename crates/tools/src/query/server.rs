//! Looks up servers by name: in `/etc/hosts`, then at the servers of `/etc/resolv.conf`. The C library is not
//! used, since that of a static binary looks up no names.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use wire::message::Parser;
use wire::{Malformed, Name, NameBuf, Type};

use super::ask::ask;
use super::words::{Family, Wanted};
use message::QuerySpec;

/// Returns the addresses of a host, in the selected family.
///
/// # Errors
/// A text, if there is none.
pub fn addresses(host: &str, family: Family, wanted: &Wanted) -> Result<Vec<IpAddr>, String> {
    let known = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let mut found: Vec<IpAddr> = from_hosts(&known, host).filter(|ip| family.takes(*ip)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let ResolvConf { servers, search, .. } =
        ResolvConf::read(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    if servers.is_empty() {
        return Err(format!("`{host}` is not in /etc/hosts, and /etc/resolv.conf names no server to ask"));
    }
    let mut fault = format!("`{host}` has no address");
    for name in candidates(host, &search) {
        for qtype in [Type::AAAA, Type::A].into_iter().filter(|qtype| family.wants(*qtype)) {
            match look_up(name, qtype, &servers, wanted) {
                Ok(ips) => found.extend(ips),
                Err(message) => fault = format!("cannot look up `{host}`: {message}"),
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Err(fault)
}

/// Returns the servers of `/etc/resolv.conf`.
pub fn resolvers() -> Vec<IpAddr> {
    ResolvConf::read(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default()).servers
}

/// Returns the names to query in turn until one exists: with `+search`, those of the search list, too.
pub fn searched(wanted: &Wanted) -> Vec<NameBuf> {
    let (Some(text), true) = (wanted.relative.as_deref(), wanted.search) else {
        return vec![wanted.query.name];
    };
    let conf = ResolvConf::read(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    let domain = wanted.domain.map(|domain| vec![domain]);
    let list = domain.unwrap_or_else(|| conf.search.iter().filter_map(|text| absolute(text)).collect());
    let completed =
        list.iter().filter_map(|domain| NameBuf::from_text(text.as_bytes(), Some(domain.as_name())).ok());
    // A name with `ndots` dots or more is tried as it is first, another one last.
    let is_whole = text.matches('.').count() >= wanted.ndots.or(conf.ndots).unwrap_or(1);
    let name = [wanted.query.name];
    match is_whole {
        true => name.into_iter().chain(completed).collect(),
        false => completed.chain(name).collect(),
    }
}

fn absolute(text: &str) -> Option<NameBuf> {
    NameBuf::from_text(text.as_bytes(), Some(Name::ROOT)).ok()
}

/// Returns the addresses of a name in a hosts file.
fn from_hosts<'t>(text: &'t str, host: &'t str) -> impl Iterator<Item = IpAddr> + 't {
    let host = host.trim_end_matches('.');
    text.lines().filter_map(move |line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let ip = words.next()?.parse().ok()?;
        words.any(|name| name.eq_ignore_ascii_case(host)).then_some(ip)
    })
}

/// The settings of `/etc/resolv.conf` that are used.
#[derive(Debug, Default, PartialEq, Eq)]
struct ResolvConf {
    servers: Vec<IpAddr>,
    search: Vec<String>,
    /// The number of dots from which a name is tried as it is before the search list is applied.
    ndots: Option<usize>,
}

impl ResolvConf {
    fn read(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    found.servers.extend(words.next().and_then(|ip| ip.parse::<IpAddr>().ok()))
                }
                Some("search" | "domain") => found.search = words.map(str::to_owned).collect(),
                Some("options") => {
                    let ndots = words.find_map(|word| word.strip_prefix("ndots:")?.parse().ok());
                    found.ndots = ndots.or(found.ndots);
                }
                _ => {}
            }
        }
        found
    }
}

/// Returns the names to look up: a name without a dot is completed by the search list first.
fn candidates(host: &str, search: &[String]) -> Vec<NameBuf> {
    let mut texts = Vec::new();
    if !host.contains('.') {
        texts.extend(search.iter().map(|domain| format!("{host}.{domain}")));
    }
    texts.push(host.to_owned());
    texts.iter().filter_map(|text| absolute(text)).collect()
}

fn look_up(name: NameBuf, qtype: Type, servers: &[IpAddr], wanted: &Wanted) -> Result<Vec<IpAddr>, String> {
    let query = QuerySpec { name, qtype, ..QuerySpec::default() };
    let message = query.message().map_err(|fault| fault.to_string())?;
    let mut fault = String::new();
    for server in servers {
        let asked = Wanted {
            query: query.clone(),
            server: SocketAddr::new(*server, 53),
            time: wanted.time,
            ..Wanted::default()
        };
        match ask(&asked, &message) {
            Ok(answer) => {
                return addresses_in(&answer.message)
                    .map_err(|Malformed| format!("{server} sent a malformed answer"));
            }
            Err(message) => fault = message,
        }
    }
    Err(fault)
}

/// Returns every address in the answer section, whatever CNAME chain leads there.
pub fn addresses_in(message: &[u8]) -> Result<Vec<IpAddr>, Malformed> {
    let (header, mut parser) = Parser::new(message)?;
    let [questions, answers, ..] = header.counts();
    for _ in 0..questions {
        parser.question()?;
    }
    let mut found = Vec::new();
    for _ in 0..answers {
        let record = parser.record()?;
        let rdata = message.get(record.rdata.clone()).unwrap_or_default();
        match record.rtype {
            Type::A => found.extend(<[u8; 4]>::try_from(rdata).map(IpAddr::from).ok()),
            Type::AAAA => found.extend(<[u8; 16]>::try_from(rdata).map(IpAddr::from).ok()),
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_files_of_the_system() {
        let hosts = "# c\n127.0.0.1 localhost loop # not-this\n::1\tlocalhost\n192.0.2.1 NS1.example ns1\n";
        let of = |host| from_hosts(hosts, host).map(|ip| ip.to_string()).collect::<Vec<_>>();
        assert_eq!(of("localhost"), ["127.0.0.1", "::1"]);
        assert_eq!(of("ns1.example."), ["192.0.2.1"]);
        assert!(of("not-this").is_empty());
        let conf = "; c\nnameserver 192.0.2.53\nnameserver 2001:db8::53\nsearch a.example b.example\noptions x ndots:5\n";
        let read = ResolvConf::read(conf);
        assert_eq!((read.servers.len(), read.ndots), (2, Some(5)));
        let names = |host| candidates(host, &read.search).iter().map(NameBuf::to_string).collect::<Vec<_>>();
        assert_eq!(names("ns1"), ["ns1.a.example.", "ns1.b.example.", "ns1."]);
        assert_eq!(names("ns1.example.net"), ["ns1.example.net."]);
    }
}
