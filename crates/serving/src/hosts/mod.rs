//! Names of other servers: from zones served here, and else from this server's own resolver, or, where it
//! is off, from the resolvers of the system. Those are not used beside the own: one may be this server,
//! which may block the name.
//!
//! | file | holds |
//! |---|---|
//! | `system` | the resolvers of the system |
//! | `file` | the system's file of hosts |
//! | `exchange` | a query to a server, and its response |

pub(crate) mod exchange;
mod file;
pub(crate) mod system;
#[cfg(test)]
pub(crate) mod testing;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Weak};

use fetch::HostAddresses;
use query_path::Engine;
use recursion::Service;
use resolver::{LookupOutcome, Partition, QueryKey};
use tokio::sync::oneshot;
use validator::Security;
use wire::message::{Malformed, Parser};
use wire::{Class, Header, NameBuf, Rcode, Type, ViewName};

use crate::frontend::Served;
use crate::own_zones::respond;
use exchange::{MALFORMED, usable, usable_rcode};
use file::HostsFile;
use system::SystemResolvers;

/// Most aliases that are followed.
const MAX_ALIASES: usize = 16;
/// The fault of a name that does not exist.
const NO_SUCH_NAME: &str = "there is no such name";

/// Resolves the names of servers.
#[derive(Clone)]
pub struct ServerHosts {
    zones: Weak<Engine<Served>>,
    /// The view whose zones are used.
    view: Option<ViewName>,
    by: Resolvers,
}

/// Resolves the names of servers of an organisation, which DNS may not have: by the system's file of hosts
/// first.
pub struct PrivateHosts {
    file: HostsFile,
    others: ServerHosts,
}

impl PrivateHosts {
    /// Returns what resolves names that the file does not have by this server's resolver, `own`, or without
    /// it by the resolvers of the system.
    pub fn new(own: Option<ServerHosts>) -> Self {
        PrivateHosts { file: HostsFile::default(), others: ServerHosts::new(own) }
    }

    /// Returns the addresses of a host.
    ///
    /// # Errors
    /// Why there are none.
    pub async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        let of_file = self.file.addresses(host);
        if of_file.is_empty() { self.others.addresses(host).await } else { Ok(of_file) }
    }
}

/// Servers that resolve names.
#[derive(Clone)]
enum Resolvers {
    /// The resolver of this server.
    Own(Arc<Service>),
    /// Those of the system.
    System(Arc<SystemResolvers>),
}

impl HostAddresses for ServerHosts {
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        if host == "localhost" {
            return Ok(vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]);
        }
        self.addresses_of(host.parse().map_err(|_| "it is not a domain name".to_owned())?).await
    }
}

impl ServerHosts {
    /// Returns `own`, what resolves names by this server's resolver; where that is off, what resolves them by
    /// the resolvers of the system.
    pub(crate) fn new(own: Option<Self>) -> Self {
        own.unwrap_or_else(|| Self::of_system(SystemResolvers::default()))
    }

    /// Returns what resolves names from the zones of an engine, and by this server's resolver.
    pub(crate) fn of_resolver(service: Arc<Service>, engine: &Arc<Engine<Served>>) -> Self {
        ServerHosts { zones: Arc::downgrade(engine), view: None, by: Resolvers::Own(service) }
    }

    /// Returns what resolves names by the resolvers of the system.
    pub(crate) fn of_system(resolvers: SystemResolvers) -> Self {
        ServerHosts { zones: Weak::new(), view: None, by: Resolvers::System(Arc::new(resolvers)) }
    }

    /// Returns the same with the zones of an engine, in a view; `None`: those outside views.
    pub(crate) fn with_zones(&self, zones: &Weak<Engine<Served>>, view: Option<ViewName>) -> Self {
        ServerHosts { zones: Weak::clone(zones), view, by: self.by.clone() }
    }

    /// Whether the resolvers of the system are used.
    pub(crate) fn is_by_system(&self) -> bool {
        matches!(self.by, Resolvers::System(_))
    }

    /// Returns the addresses of a name.
    pub(crate) async fn addresses_of(&self, name: NameBuf) -> Result<Vec<IpAddr>, String> {
        let (six, four) = tokio::join!(self.of_type(name, Type::AAAA), self.of_type(name, Type::A));
        let (six, four) = match (six, four) {
            (Err(fault), Err(_)) => return Err(fault),
            (six, four) => (six.unwrap_or_default(), four.unwrap_or_default()),
        };
        // In turn, so that an address of each family is tried soon (RFC 8305 §4).
        let rest = six.len().min(four.len());
        let pairs = six.iter().zip(&four).flat_map(|(six, four)| [*six, *four]);
        let more = six.iter().skip(rest).chain(four.iter().skip(rest)).copied();
        Ok(pairs.chain(more).collect())
    }

    async fn of_type(&self, name: NameBuf, qtype: Type) -> Result<Vec<IpAddr>, String> {
        let address = |rdata: Vec<u8>| match qtype {
            Type::A => <[u8; 4]>::try_from(rdata).map(IpAddr::from).ok(),
            _ => <[u8; 16]>::try_from(rdata).map(IpAddr::from).ok(),
        };
        let found = self.records(name, qtype).await?.ok_or_else(|| NO_SUCH_NAME.to_owned())?;
        Ok(found.into_iter().filter_map(address).collect())
    }

    /// Returns the data of the records of a type at a name, or at the end of its aliases; `None` if there is
    /// no such name.
    pub(crate) async fn records(
        &self,
        mut name: NameBuf,
        qtype: Type,
    ) -> Result<Option<Vec<Vec<u8>>>, String> {
        for _ in 0..MAX_ALIASES {
            let message = self.response(name, qtype).await?;
            let is_none = Header::of(&message).is_some_and(|header| header.rcode() == Rcode::NXDOMAIN);
            match records_in(&message, name, qtype) {
                Ok((records, end)) if !records.is_empty() || end == name => {
                    return Ok((!is_none).then_some(records));
                }
                Ok(_) if is_none => return Ok(None),
                Ok((_, end)) => name = end,
                Err(Malformed) => return Err(MALFORMED.to_owned()),
            }
        }
        Err(format!("more than {MAX_ALIASES} aliases"))
    }

    /// Returns the response of a zone here, or of other servers: NOERROR or NXDOMAIN.
    pub(crate) async fn response(&self, name: NameBuf, qtype: Type) -> Result<Vec<u8>, String> {
        if let Some(message) = self.of_own_zones(name, qtype) {
            return usable(message);
        }
        match &self.by {
            Resolvers::Own(service) => resolve(service, name, qtype).await.map(|(message, _)| message),
            Resolvers::System(resolvers) => resolvers.response(name, qtype).await,
        }
    }

    /// Returns the data of the records of a type at a name, which this server's resolver has found secure;
    /// none if their absence is secure.
    ///
    /// # Errors
    /// They are not known to be secure, or the name is an alias.
    pub(crate) async fn secure_records(&self, name: NameBuf, qtype: Type) -> Result<Vec<Vec<u8>>, String> {
        let Resolvers::Own(service) = &self.by else {
            return Err("only the resolver of this server validates, and there is no [resolver]".to_owned());
        };
        let (message, security) = resolve(service, name, qtype).await?;
        match security {
            Some(Security::Secure) => {}
            Some(Security::Insecure(reason)) => return Err(format!("the answer is insecure: {reason}")),
            _ => return Err("the answer is not validated".to_owned()),
        }
        match records_in(&message, name, qtype).map_err(|Malformed| MALFORMED)? {
            (records, end) if end == name => Ok(records),
            _ => Err("the name is an alias".to_owned()),
        }
    }

    /// Returns the authoritative response of the zones here, if they have one.
    pub(crate) fn of_own_zones(&self, name: NameBuf, qtype: Type) -> Option<Vec<u8>> {
        let catalog = self.zones.upgrade()?.catalog_of(self.view.as_ref().map(ViewName::as_str))?;
        let mut message = Vec::new();
        let is_complete = respond(&catalog, name.as_name(), qtype, false, &mut message);
        (is_complete && Header::of(&message)?.authoritative()).then_some(message)
    }
}

/// Returns the response of this server's resolver, NOERROR or NXDOMAIN, with its security if it validates.
async fn resolve(
    service: &Service,
    name: NameBuf,
    qtype: Type,
) -> Result<(Vec<u8>, Option<Security>), String> {
    let name = name.as_name().to_lower();
    let key = QueryKey {
        name,
        qtype,
        qclass: Class::IN,
        dnssec_ok: false,
        checking_disabled: false,
        partition: Partition::SHARED,
    };
    let (reply, outcome) = oneshot::channel();
    service.look_up(key, None, move |outcome, verdict| {
        // The caller may have ended.
        let _ = reply.send((outcome, verdict));
    });
    let (outcome, verdict) = outcome.await.map_err(|_| "the resolver does not run".to_owned())?;
    let security = verdict.map(|verdict| verdict.security);
    if let Some(Security::Bogus(reason)) = security {
        return Err(format!("the answer is bogus: {reason}"));
    }
    match outcome {
        LookupOutcome::Answered(answer) => {
            usable_rcode(answer.rcode).map(|()| (answer.message.to_vec(), security))
        }
        LookupOutcome::Failed(failure) => Err(failure.to_string()),
    }
}

/// Returns the data of the records of a type in the answer section, and the name that the aliases lead to.
fn records_in(message: &[u8], name: NameBuf, qtype: Type) -> Result<(Vec<Vec<u8>>, NameBuf), Malformed> {
    let (header, mut parser) = Parser::new(message)?;
    let [questions, answers, ..] = header.counts();
    for _ in 0..questions {
        parser.question()?;
    }
    let (mut current, mut found) = (name, Vec::new());
    // A response has the records of a chain in its order.
    for _ in 0..answers {
        let record = parser.record()?;
        if parser.name_at(record.owner_at)? != current {
            continue;
        }
        match record.rtype {
            rtype if rtype == qtype => {
                let mut rdata = Vec::new();
                parser.expand_rdata(&record, &mut rdata)?;
                found.push(rdata);
            }
            Type::CNAME => current = parser.name_at(record.rdata_at())?,
            _ => {}
        }
    }
    Ok((found, current))
}

#[cfg(test)]
mod tests {
    use wire::Ttl;
    use wire::message::{Builder, Compressor, MAX_MESSAGE, Owner, Section};

    use super::*;

    fn name(text: &str) -> NameBuf {
        text.parse().expect("a name")
    }

    /// A response for `lists.example` with these records.
    fn response(records: &[(&str, Type, &[u8])]) -> Vec<u8> {
        let (mut buf, mut names) = (vec![0; MAX_MESSAGE], Compressor::large());
        let mut b = Builder::new(&mut buf, MAX_MESSAGE, Header::query(0).reply(), &mut names);
        b.question(name("lists.example").as_name(), Type::A, Class::IN).expect("room");
        for (owner, rtype, rdata) in records {
            b.record(
                Section::Answer,
                Owner::Name(name(owner).as_name()),
                *rtype,
                Class::IN,
                Ttl::from_secs(1),
                rdata,
            )
            .expect("room");
        }
        let len = b.finish();
        buf.truncate(len);
        buf
    }

    #[test]
    fn records_are_those_of_the_name_and_its_aliases() {
        let of = |records: &[_]| records_in(&response(records), name("lists.example"), Type::A);
        let (a, other) = ([192, 0, 2, 1], [192, 0, 2, 9]);
        let cdn = name("cdn.example");
        let alias = ("lists.example", Type::CNAME, cdn.as_name().as_wire());
        let own = name("lists.example");
        let at = |all: &[[u8; 4]], end| Ok((all.iter().map(|a| a.to_vec()).collect(), end));
        assert_eq!(of(&[("lists.example", Type::A, &a)]), at(&[a], own));
        assert_eq!(of(&[alias, ("cdn.example", Type::A, &a)]), at(&[a], cdn));
        assert_eq!(of(&[("else.example", Type::A, &other)]), at(&[], own));
        assert_eq!(of(&[alias]), at(&[], cdn));
    }
}
