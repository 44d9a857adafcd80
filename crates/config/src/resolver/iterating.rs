//! Keys of `[resolver]` about iteration from the root servers down: where it starts, how it works, and what
//! one client's query may cost.

use std::net::SocketAddr;

use recursion::Domain;
use resolver::{BudgetLimits, IterateConfig, IterateRule, Minimisation, StartServer};
use wire::{Name, NameBuf};

use super::asking::check_servers;
use super::files::HintsFile;
use super::validating::Validating;
use crate::addresses::ServerAddress;
use crate::listen::Opened;
use crate::report::Diagnostic;
use crate::table::keys;
use crate::table::read::At;
use crate::table::value::{Int, Size, Time, Word};

keys! {
    /// Keys about iteration from the root servers down.
    pub struct Iterating {
        /// Ask the root servers for the names that no rule is for, then the servers that they refer to, and
        /// so on. With a `[[resolver.forward]]` for "." no name is left for that. `false`: names that no rule
        /// is for are refused.
        live "iterate" iterate: bool = true, example false;
        /// Domains for which no other server is asked: clients get REFUSED for names at and below them, with
        /// extended error 20. The rule with the longest domain counts, so a rule for a domain below one of
        /// these has its servers asked. Zones that nomen serves, special-use names and `local-data` are
        /// answered all the same.
        live "refused-domains" refused: Option<Vec<At<NameBuf>>> = None, example ["secret.example"];
        /// The root servers. Without a port it is 53. Unset: those of the public DNS, which are asked who the
        /// root servers are by now (RFC 8109). Servers that are named here are taken at that: a copy of the
        /// root, or a root of your own.
        live "root-servers" root_servers: Option<Vec<At<ServerAddress>>> = None,
            example ["192.0.2.55", "2001:db8::55"];
        /// File of root hints, as IANA publishes it: NS records of the root, with the addresses of its
        /// servers. They are asked who the root servers are by now. Unset: those that are built in. Read
        /// again with the configuration; where `root-servers` names servers, these count.
        live "root-hints" hints: Option<HintsFile> = None, example "/etc/nomen/named.root";
        /// How much of a name each server sees (RFC 9156): "off": all of it; "relaxed": what it needs, and
        /// all of it where it denies a part; "strict": what it needs, and a denial of a part denies the
        /// whole.
        live "qname-minimisation" minimisation: Minimisation = Minimisation::Relaxed, example "strict";
        /// Ask servers by IPv4.
        live "iterate-ipv4" ipv4: bool = true, example false;
        /// Ask servers by IPv6.
        live "iterate-ipv6" ipv6: bool = true, example false;
        /// Ask servers at loopback addresses that delegations lead to, such as another server on this
        /// machine. Otherwise the owner of a zone could have nomen send queries to programs on this machine,
        /// or to itself. Servers that a rule, `root-servers` or `root-hints` names are asked there in any
        /// case.
        live "iterate-loopback" loopback: bool = false, example true;
        /// Most servers of one zone that are considered, those with addresses in the referral first.
        live "servers-per-zone" servers: Int<usize, 1, 64> = Int(13), example 8;
        /// Most addresses of one server that are.
        live "addresses-per-server" addresses: Int<usize, 1, 64> = Int(6), example 4;
        /// Most questions under way at the servers of one zone.
        live "lookups-per-zone" per_zone: Int<usize, 1, 1_000_000> = Int(2000), example 1000;
        /// The same if none of these servers answers.
        live "lookups-per-dead-zone" per_dead_zone: Int<usize, 1, 1_000_000> = Int(20), example 10;
        /// Memory for what is known of delegations, of their servers' addresses, and of names at which no
        /// zone begins.
        live "delegations-size" delegations: Size<{ 1 << 20 }, { 4 << 30 }> = Size(32 << 20), example "64MiB";
        /// Most servers that it is remembered of how fast they are and what they cannot do.
        live "known-servers" known: Int<usize, 100, 1_000_000> = Int(20_000), example 50000;
    }
}

keys! {
    /// Keys about what one client query may cost other servers: all queries it causes, including those for
    /// aliases and for servers' addresses.
    pub struct QueryBudget {
        /// Most questions to other servers.
        live "budget-queries" queries: Int<u16, 1, 10_000> = Int(64), example 100;
        /// Most of them to the servers of one zone.
        live "budget-queries-per-zone" per_zone: Int<u16, 1, 10_000> = Int(16), example 24;
        /// Most bytes of replies.
        live "budget-bytes" bytes: Size<4096, { 1 << 30 }> = Size(100_000), example "256KiB";
        /// Most time. A client waits as long as that where names are found step by step, and nowhere longer.
        live "budget-time" time: Time<100, 60_000> = Time::secs(10), example "8s";
        /// Most aliases whose targets are looked up by themselves.
        live "budget-aliases" aliases: Int<u16, 0, 1000> = Int(11), example 8;
        /// Most lookups of servers' addresses that find nothing. One that is under way counts, until it has
        /// found something.
        live "budget-fruitless" fruitless: Int<u16, 0, 1000> = Int(5), example 4;
        /// Most questions that show a part of the name only; later ones show all of it.
        live "budget-minimised" minimised: Int<u16, 0, 255> = Int(10), example 8;
        /// Most lookups of servers' addresses that wait for each other in a row. Each of them counts for
        /// `budget-fruitless`, too, so where that is less, no row is longer than that.
        live "budget-depth" depth: Int<u8, 0, 64> = Int(7), example 5;
    }
}

impl Word for Minimisation {
    const WORDS: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("relaxed", Self::Relaxed), ("strict", Self::Strict)];
}

impl QueryBudget {
    fn limits(&self) -> BudgetLimits {
        BudgetLimits {
            queries: self.queries.0,
            queries_per_zone: self.per_zone.0,
            bytes: self.bytes.0,
            time: self.time.0,
            aliases: self.aliases.0,
            fruitless: self.fruitless.0,
            minimised: self.minimised.0,
        }
    }
}

impl Iterating {
    /// Returns the settings of iteration; `everything_else`: names without a rule are iterated.
    pub(super) fn config(&self, budget: &QueryBudget, everything_else: bool) -> IterateConfig {
        IterateConfig {
            own_zones: None,
            rules: if everything_else { vec![self.rule()] } else { Vec::new() },
            budget: budget.limits(),
            minimisation: *self.minimisation,
            servers: self.servers.0,
            addresses: self.addresses.0,
            depth: budget.depth.0,
            lookups_per_zone: self.per_zone.0,
            lookups_per_dead_zone: self.per_dead_zone.0,
            ipv4: *self.ipv4,
            ipv6: *self.ipv6,
            loopback: *self.loopback,
            delegation_bytes: self.delegations.0,
            known_servers: self.known.0,
        }
    }

    /// Returns the rule for iterating from the root.
    pub(super) fn rule(&self) -> IterateRule {
        let Some(own) = &self.root_servers.value else { return self.hinted() };
        let addresses: Vec<SocketAddr> = own.iter().map(|server| server.0.0).collect();
        let servers =
            addresses.into_iter().map(|address| StartServer { name: None, addresses: vec![address] });
        IterateRule { domain: Name::ROOT.to_buf(), servers: servers.collect(), prime: false, copy: None }
    }

    /// Returns the rule with the root servers of the hints file, or the built-in ones.
    fn hinted(&self) -> IterateRule {
        let hints =
            self.hints.value.as_ref().map(|file| file.read.clone()).filter(|servers| !servers.is_empty());
        let built_in = IterateRule::root();
        IterateRule { servers: hints.unwrap_or(built_in.servers), ..built_in }
    }

    /// Returns the domain that is iterated. AD is not trusted: authoritative servers do not validate.
    pub(super) fn domain(&self, validating: &Validating) -> Domain {
        let name = Name::ROOT.to_buf();
        Domain { name, trust_ad: false, validate: validating.validates(name.as_name()) }
    }

    /// Returns the domains for which no server is queried.
    pub(super) fn refused(&self) -> Vec<NameBuf> {
        self.refused.iter().flatten().map(|name| name.value).collect()
    }

    /// Reports refused domains that also have a rule, and the root, which `iterate` turns off.
    pub(super) fn check_refused<'d>(
        &self,
        rules: impl Iterator<Item = &'d At<NameBuf>> + Clone,
        faults: &mut Vec<Diagnostic>,
    ) {
        for name in self.refused.iter().flatten() {
            if name.value.as_name().is_root() {
                let fault = Diagnostic::at(name.place.as_ref(), "`refused-domains` takes no \".\"");
                faults
                    .push(fault.hint("write `iterate = false`, which refuses all names that no rule is for"));
            } else if rules.clone().any(|rule| rule.as_name().to_lower() == name.as_name().to_lower()) {
                let message = format!("{} is refused, and has a rule as well", name.value);
                faults.push(Diagnostic::at(name.place.as_ref(), message));
            }
        }
    }

    pub(super) fn check(&self, opened: &[Opened], faults: &mut Vec<Diagnostic>) {
        check_servers(self.root_servers.as_deref().unwrap_or_default(), opened, faults);
        if *self.iterate && !*self.ipv4 && !*self.ipv6 {
            let message = "neither `iterate-ipv4` nor `iterate-ipv6` is true: no server can be asked";
            faults.push(Diagnostic::at(self.ipv6.place.as_ref(), message));
        }
    }
}
