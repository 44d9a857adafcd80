//! Selects the NSEC (RFC 4035 §3.1.3) or NSEC3 (RFC 5155 §7.2) records of an answer.

use wire::Type;
use wire::name::MAX_NAME;
use zone::store::{Node, Nsec3Chain};

use crate::here::Here;
use crate::reply::Reply;
use crate::search;

/// Adds the proofs of an answer from `node`, which is the name's own or a wildcard `wildcard` labels above
/// it; `answered`: the node has records of QTYPE.
pub(crate) fn data<'z>(
    here: &Here<'_, 'z>,
    node: Node<'z>,
    wildcard: Option<usize>,
    answered: bool,
    reply: &mut Reply<'_, '_, 'z>,
) {
    match (wildcard, answered) {
        (None, true) => {}
        (None, false) => no_data(here, node, reply),
        (Some(skip), _) => {
            let Some(chain) = here.zone.nsec3() else {
                let Some(chain) = here.zone.nsec() else { return };
                reply.prove(search::nsec(chain, here.hashed, here.begun));
                if !answered {
                    // The wildcard may itself be an empty non-terminal.
                    reply.prove(chain.covering(node.owner()));
                }
                return;
            };
            if answered {
                // The next closer name does not exist (RFC 5155 §7.2.6).
                covering(chain, here, skip - 1, reply);
            } else {
                closest_encloser(chain, here, skip, reply);
                let wildcard = reply.hash(chain, node.owner());
                reply.prove(chain.matching(&wildcard));
            }
        }
    }
}

/// Adds the proof that the name exists without records of QTYPE.
fn no_data<'z>(here: &Here<'_, 'z>, node: Node<'z>, reply: &mut Reply<'_, '_, 'z>) {
    let Some(chain) = here.zone.nsec3() else {
        // An empty non-terminal has no NSEC; the one before it proves that it has no records.
        let own = node.rrset(Type::NSEC).map(|_| node);
        let before = || here.zone.nsec().and_then(|chain| search::nsec(chain, here.hashed, here.begun));
        return reply.prove(own.or_else(before));
    };
    match reply.search_nsec3(chain, here, 0) {
        (own, true) => reply.prove(Some(own)),
        // Opt-out left the name without an NSEC3 (RFC 5155 §7.2.4).
        _ if here.below > 0 => {
            closest_encloser(chain, here, 1, reply);
        }
        _ => {}
    }
}

/// Adds the proofs that the name does not exist; its closest encloser is `skip` labels up.
pub(crate) fn no_name<'z>(here: &Here<'_, 'z>, skip: usize, reply: &mut Reply<'_, '_, 'z>) {
    let mut buf = [0; MAX_NAME];
    match here.zone.nsec3() {
        None => {
            let Some(chain) = here.zone.nsec() else { return };
            reply.prove(search::nsec(chain, here.hashed, here.begun));
            // If the wildcard's name would be too long, no such wildcard can exist, and none has to be
            // denied.
            if let Ok(wildcard) = here.hashed.suffix(skip).wildcard(&mut buf) {
                reply.prove(chain.covering(wildcard));
            }
        }
        Some(chain) => {
            let encloser = closest_encloser(chain, here, skip, reply);
            if let Ok(wildcard) = here.hashed.suffix(encloser).wildcard(&mut buf) {
                let wildcard = reply.hash(chain, wildcard);
                reply.prove(Some(chain.covering(&wildcard)));
            }
        }
    }
}

/// Adds the proof that the cut `skip` labels up has no DS.
pub(crate) fn no_ds<'z>(here: &Here<'_, 'z>, cut: Node<'z>, skip: usize, reply: &mut Reply<'_, '_, 'z>) {
    let Some(chain) = here.zone.nsec3() else {
        return reply.prove(cut.rrset(Type::NSEC).map(|_| cut));
    };
    match reply.search_nsec3(chain, here, skip) {
        (own, true) => reply.prove(Some(own)),
        _ => {
            closest_encloser(chain, here, skip + 1, reply);
        }
    }
}

/// Proves the closest provable encloser, at least `skip` labels up (RFC 5155 §7.2.1): the NSEC3 matching it
/// and the one covering the next closer name. Returns how many labels up it is.
fn closest_encloser<'z>(
    chain: Nsec3Chain<'z>,
    here: &Here<'_, 'z>,
    skip: usize,
    reply: &mut Reply<'_, '_, 'z>,
) -> usize {
    for up in skip..=here.below {
        // Skips names that opt-out or an incomplete chain left without NSEC3.
        if let Some(own) = chain.matching(&reply.hash(chain, here.hashed.suffix(up))) {
            reply.prove(Some(own));
            covering(chain, here, up.saturating_sub(1), reply);
            return up;
        }
    }
    here.below
}

/// Adds the NSEC3 that covers the name without its `skip` leftmost labels.
fn covering<'z>(chain: Nsec3Chain<'z>, here: &Here<'_, 'z>, skip: usize, reply: &mut Reply<'_, '_, 'z>) {
    let (node, _) = reply.search_nsec3(chain, here, skip);
    reply.prove(Some(node));
}
