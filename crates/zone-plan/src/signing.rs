//! Which zones nomen signs, under which policy, from the configuration.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use config::dnssec_policy::{
    DEFAULT_POLICY, DnssecPolicies, DnssecPolicySection, INSECURE_POLICY, PolicyAlgorithm, RsaSize,
};
use config::signing::{ZoneSigningKeys, policy_of};
use signer::denial::{DenialMethod, Nsec3Settings};
use signer::policy::{DnssecPolicy, KeyAlgorithm, KeyLayout, SigningGoal};
use wire::Ttl;
use wire::rdata::view::SigAlgorithm;

use crate::peers::DsPush;

/// How one zone is signed, or all zones of a folder.
#[derive(Debug, Clone, PartialEq)]
pub struct ZoneSigning {
    /// How its keys and signatures are maintained; the zones of one policy share it.
    pub policy: Arc<DnssecPolicy>,
    /// Servers of the parent that are asked for the DS records; empty: they are found by resolution.
    pub parental_servers: Vec<SocketAddr>,
    /// Where the DS records are changed.
    pub ds_push: DsPush,
}

/// Makes how zones are signed.
pub(crate) struct SigningMaker<'c> {
    policies: &'c DnssecPolicies,
    /// Policies by name.
    made: HashMap<String, Arc<DnssecPolicy>>,
}

impl<'c> SigningMaker<'c> {
    /// Returns a maker with these policies. The check of the configuration has ensured that all policies that
    /// are named exist.
    pub(crate) fn new(policies: &'c DnssecPolicies) -> Self {
        SigningMaker { policies, made: HashMap::new() }
    }

    /// Returns how zones with these keys and those of this template are signed; `None`: they are not.
    /// `ds_push` returns where their DS records are changed.
    pub(crate) fn signing(
        &mut self,
        own: &ZoneSigningKeys,
        template: &ZoneSigningKeys,
        ds_push: impl FnOnce() -> DsPush,
    ) -> Option<Arc<ZoneSigning>> {
        let name = policy_of(own, Some(template))?;
        let servers = own.parental_servers.value.as_ref().or(template.parental_servers.value.as_ref());
        let parental_servers = servers.into_iter().flatten().map(|server| server.value.0.0).collect();
        Some(Arc::new(ZoneSigning { policy: self.policy(name)?, parental_servers, ds_push: ds_push() }))
    }

    fn policy(&mut self, name: &str) -> Option<Arc<DnssecPolicy>> {
        if let Some(made) = self.made.get(name) {
            return Some(Arc::clone(made));
        }
        let policy = Arc::new(match name {
            DEFAULT_POLICY => DnssecPolicy::default(),
            INSECURE_POLICY => {
                let goal = SigningGoal::Insecure;
                DnssecPolicy { name: name.to_owned(), goal, ..DnssecPolicy::default() }
            }
            _ => policy(name, self.policies.get(name)?),
        });
        self.made.insert(name.to_owned(), Arc::clone(&policy));
        Some(policy)
    }
}

/// Returns a policy with these keys.
fn policy(name: &str, keys: &DnssecPolicySection) -> DnssecPolicy {
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let key = |size: Option<RsaSize>| KeyAlgorithm {
        algorithm: algorithm(*keys.algorithm),
        bits: if keys.algorithm.is_rsa() { size.unwrap_or_default().0 } else { 0 },
    };
    let salt = || keys.nsec3_salt.value.as_ref().map(|salt| salt.0.clone()).unwrap_or_default();
    DnssecPolicy {
        name: name.to_owned(),
        goal: SigningGoal::Signed,
        layout: if *keys.single_key { KeyLayout::Combined } else { KeyLayout::Split },
        ksk: key(*keys.ksk_size),
        zsk: key(*keys.zsk_size),
        ksk_lifetime: keys.ksk_lifetime.value.map(|lifetime| seconds(lifetime.0)),
        zsk_lifetime: keys.zsk_lifetime.value.map(|lifetime| seconds(lifetime.0)),
        standby_ksk: *keys.standby_ksk,
        standby_zsk: *keys.standby_zsk,
        denial: match (*keys.online, *keys.nsec3) {
            (Some(denial), _) => DenialMethod::Online(denial),
            (None, true) => DenialMethod::Nsec3(Nsec3Settings {
                opt_out: *keys.nsec3_opt_out,
                iterations: keys.nsec3_iterations.0,
                salt: salt(),
            }),
            (None, false) => DenialMethod::Nsec,
        },
        online_rate: keys.online_rate.0,
        online_cache: keys.online_cache.0,
        signature_validity: seconds(keys.validity.0),
        signature_refresh: seconds(keys.refresh.0),
        signature_jitter: seconds(keys.jitter.0),
        inception_offset: seconds(keys.inception_offset.0),
        dnskey_ttl: Ttl::from_secs(keys.dnskey_ttl.0),
        publish_safety: seconds(keys.publish_safety.0),
        retire_safety: seconds(keys.retire_safety.0),
        zone_propagation_delay: seconds(keys.zone_delay.0),
        parent_propagation_delay: seconds(keys.parent_delay.0),
        parent_ds_ttl: Ttl::from_secs(keys.parent_ds_ttl.0),
        purge_keys: (keys.purge_keys.0 > 0).then(|| seconds(keys.purge_keys.0)),
        offline_ksk: *keys.offline_ksk,
        sync: *keys.cds,
        csync: *keys.csync,
        zonemd: keys.zonemd.0.clone(),
    }
}

fn algorithm(word: PolicyAlgorithm) -> SigAlgorithm {
    match word {
        PolicyAlgorithm::Rsasha256 => SigAlgorithm::RSASHA256,
        PolicyAlgorithm::Rsasha512 => SigAlgorithm::RSASHA512,
        PolicyAlgorithm::Ecdsap256sha256 => SigAlgorithm::ECDSAP256SHA256,
        PolicyAlgorithm::Ecdsap384sha384 => SigAlgorithm::ECDSAP384SHA384,
        PolicyAlgorithm::Ed25519 => SigAlgorithm::ED25519,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::Configuration;
    use zone::zonemd::ZonemdHash;

    use super::*;

    fn read(text: &str) -> Configuration {
        let text = format!("[server]\nstate-dir = \"/state\"\n{text}");
        config::read_text("test", text, Path::new("/")).expect("a good configuration").config
    }

    #[test]
    fn a_table_without_keys_is_the_default_policy() {
        let config = read("[dnssec-policy.own]\n");
        let own = policy("own", &config.dnssec_policies["own"]);
        assert_eq!(own, DnssecPolicy { name: "own".into(), ..DnssecPolicy::default() });
    }

    #[test]
    fn every_key_of_a_policy_has_its_effect() {
        let config = read(
            "[dnssec-policy.own]\nalgorithm = \"rsasha512\"\nsingle-key = false\nksk-size = 4096\n\
            ksk-lifetime = \"365d\"\nzsk-lifetime = \"90d\"\nstandby-ksk = true\nstandby-zsk = true\nnsec3 = true\nnsec3-opt-out = true\n\
            nsec3-iterations = 3\nnsec3-salt = \"8d45\"\nsignature-validity = \"28d\"\n\
            signature-refresh = \"7d\"\nsignature-jitter = \"1d\"\ninception-offset = \"2h\"\n\
            dnskey-ttl = \"10m\"\npublish-safety = \"20m\"\nretire-safety = \"30m\"\n\
            zone-propagation-delay = \"40m\"\nparent-propagation-delay = \"50m\"\nparent-ds-ttl = \"70m\"\n\
            purge-keys = \"0s\"\ncds = false\ncsync = true\nzonemd = [\"sha512\"]\n",
        );
        let (minutes, days) =
            (|n: u64| Duration::from_secs(n * 60), |n: u64| Duration::from_secs(n * 86_400));
        let expected = DnssecPolicy {
            name: "own".into(),
            goal: SigningGoal::Signed,
            layout: KeyLayout::Split,
            ksk: KeyAlgorithm { algorithm: SigAlgorithm::RSASHA512, bits: 4096 },
            zsk: KeyAlgorithm { algorithm: SigAlgorithm::RSASHA512, bits: 2048 },
            ksk_lifetime: Some(days(365)),
            zsk_lifetime: Some(days(90)),
            standby_ksk: true,
            standby_zsk: true,
            denial: DenialMethod::Nsec3(Nsec3Settings {
                opt_out: true,
                iterations: 3,
                salt: vec![0x8d, 0x45],
            }),
            online_rate: 10_000,
            online_cache: 4 << 20,
            signature_validity: days(28),
            signature_refresh: days(7),
            signature_jitter: days(1),
            inception_offset: minutes(120),
            dnskey_ttl: Ttl::from_secs(600),
            publish_safety: minutes(20),
            retire_safety: minutes(30),
            zone_propagation_delay: minutes(40),
            parent_propagation_delay: minutes(50),
            parent_ds_ttl: Ttl::from_secs(4200),
            purge_keys: None,
            offline_ksk: false,
            sync: false,
            csync: true,
            zonemd: vec![ZonemdHash::Sha512],
        };
        assert_eq!(policy("own", &config.dnssec_policies["own"]), expected);
    }

    #[test]
    fn the_ksk_may_be_offline() {
        let config = read("[dnssec-policy.own]\nsingle-key = false\noffline-ksk = true\n");
        let own = policy("own", &config.dnssec_policies["own"]);
        assert!(own.offline_ksk && own.layout == KeyLayout::Split);
    }

    #[test]
    fn zones_of_one_policy_share_it() {
        let config = read(
            "[template.t]\ndirectory = \"d\"\ndnssec-policy = \"insecure\"\n\
            parental-servers = [\"192.0.2.1\"]\n[[zone]]\nname = \"a.example\"\nfile = \"f\"\n\
            dnssec-policy = \"default\"\nparental-servers = [\"2001:db8::1@5353\"]\n",
        );
        let mut maker = SigningMaker::new(&config.dnssec_policies);
        let (own, template) = (&*config.zones[0].signing, &config.templates["t"].signing);
        let none = ZoneSigningKeys::default();
        let a = maker.signing(own, &none, DsPush::default).expect("signed");
        assert_eq!(*a.policy, DnssecPolicy::default());
        assert_eq!(a.parental_servers, ["[2001:db8::1]:5353".parse().expect("an address")]);
        let b = maker.signing(own, template, DsPush::default).expect("signed");
        assert!(Arc::ptr_eq(&a.policy, &b.policy));
        let c = maker.signing(&none, template, DsPush::default).expect("signed");
        assert_eq!((c.policy.goal, &*c.policy.name), (SigningGoal::Insecure, "insecure"));
        assert_eq!(c.parental_servers, ["192.0.2.1:53".parse().expect("an address")]);
        assert_eq!(maker.signing(&none, &none, DsPush::default), None);
    }
}
