//! Addresses of the servers of lists, and of a CA: from zones served here, and else from this server's own
//! resolver. The system's resolver is not used: it may be this server, which may block the name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Weak};

use fetch::HostAddresses;
use query_path::Engine;
use recursion::Service;
use resolver::{LookupOutcome, Partition, QueryKey};
use tokio::sync::oneshot;
use validator::Security;
use wire::message::{Malformed, Parser};
use wire::{Class, Header, NameBuf, Rcode, Type};

use super::own_zones::respond;
use crate::frontend::Served;

/// Most aliases that are followed.
const MAX_ALIASES: usize = 16;

/// Resolves the names of servers.
pub struct ListHosts {
    pub(super) service: Arc<Service>,
    pub(super) engine: Weak<Engine<Served>>,
}

impl HostAddresses for ListHosts {
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        if host == "localhost" {
            return Ok(vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]);
        }
        let name: NameBuf = host.parse().map_err(|_| "it is not a domain name".to_owned())?;
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
}

impl ListHosts {
    async fn of_type(&self, mut name: NameBuf, qtype: Type) -> Result<Vec<IpAddr>, String> {
        for _ in 0..MAX_ALIASES {
            let message = self.response(name, qtype).await?;
            match found(&message, name, qtype) {
                Ok((addresses, end)) if !addresses.is_empty() || end == name => return Ok(addresses),
                Ok((_, end)) => name = end,
                Err(Malformed) => return Err("the response is malformed".to_owned()),
            }
        }
        Err(format!("more than {MAX_ALIASES} aliases"))
    }

    /// Returns the response of a zone here, or of other servers.
    async fn response(&self, name: NameBuf, qtype: Type) -> Result<Vec<u8>, String> {
        if let Some(engine) = self.engine.upgrade() {
            let mut message = Vec::new();
            let is_complete = respond(&engine.catalog(), name.as_name(), qtype, false, &mut message);
            let header = Header::of(&message).filter(|header| is_complete && header.authoritative());
            if let Some(header) = header {
                return is_there(header.rcode()).map(|()| message);
            }
        }
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
        self.service.look_up(key, None, move |outcome, verdict| {
            // The fetch may have ended.
            let _ = reply.send((outcome, verdict));
        });
        let (outcome, verdict) = outcome.await.map_err(|_| "the resolver does not run".to_owned())?;
        if let Some(Security::Bogus(reason)) = verdict.map(|verdict| verdict.security) {
            return Err(format!("the answer is bogus: {reason}"));
        }
        match outcome {
            LookupOutcome::Answered(answer) => is_there(answer.rcode).map(|()| answer.message.to_vec()),
            LookupOutcome::Failed(failure) => Err(failure.to_string()),
        }
    }
}

fn is_there(rcode: Rcode) -> Result<(), String> {
    match rcode {
        Rcode::NOERROR => Ok(()),
        Rcode::NXDOMAIN => Err("there is no such name".to_owned()),
        rcode => Err(format!("the response is {rcode}")),
    }
}

/// Returns the addresses of a name in the answer section of a response, at the end of its aliases.
///
/// # Errors
/// The response is malformed.
pub fn addresses_in(message: &[u8], name: NameBuf, qtype: Type) -> Result<Vec<IpAddr>, String> {
    let found = found(message, name, qtype).map_err(|Malformed| "the response is malformed".to_owned())?;
    Ok(found.0)
}

/// Returns the addresses of a name in the answer section, and the name that its aliases lead to.
fn found(message: &[u8], name: NameBuf, qtype: Type) -> Result<(Vec<IpAddr>, NameBuf), Malformed> {
    let (header, mut parser) = Parser::new(message)?;
    let [questions, answers, ..] = header.counts();
    for _ in 0..questions {
        parser.question()?;
    }
    let (mut current, mut addresses) = (name, Vec::new());
    // A response has the records of a chain in its order.
    for _ in 0..answers {
        let record = parser.record()?;
        if parser.name_at(record.owner_at)? != current {
            continue;
        }
        let rdata = message.get(record.rdata.clone()).unwrap_or_default();
        match record.rtype {
            Type::CNAME => current = parser.name_at(record.rdata_at())?,
            Type::A if qtype == Type::A => {
                addresses.extend(<[u8; 4]>::try_from(rdata).map(IpAddr::from).ok());
            }
            Type::AAAA if qtype == Type::AAAA => {
                addresses.extend(<[u8; 16]>::try_from(rdata).map(IpAddr::from).ok());
            }
            _ => {}
        }
    }
    Ok((addresses, current))
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
    fn addresses_are_those_of_the_name_and_its_aliases() {
        let of = |records: &[_]| found(&response(records), name("lists.example"), Type::A);
        let (a, other) = ([192, 0, 2, 1], [192, 0, 2, 9]);
        let cdn = name("cdn.example");
        let alias = ("lists.example", Type::CNAME, cdn.as_name().as_wire());
        let own = name("lists.example");
        let at = |all: &[[u8; 4]], end| Ok((all.iter().map(|a| IpAddr::from(*a)).collect(), end));
        assert_eq!(of(&[("lists.example", Type::A, &a)]), at(&[a], own));
        assert_eq!(of(&[alias, ("cdn.example", Type::A, &a)]), at(&[a], cdn));
        assert_eq!(of(&[("else.example", Type::A, &other)]), at(&[], own));
        assert_eq!(of(&[alias]), at(&[], cdn));
    }
}
