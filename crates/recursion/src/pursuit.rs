//! One client's question on its way to an answer: through the cache, through rules that a chain crosses, through DNS64.
//! Every step is taken the same way whether its answer was in the cache or came from another server.

use std::net::SocketAddr;
use std::sync::Arc;

use cache::Now;
use dnssec::BogusReason;
use engine::Refusal;
use resolver::{AnsweredBy, Budget, ClientPrefix, Inquiry};
use wire::edns::ErrorInfo;
use wire::{LowerNameBuf, Rcode, Type};

use crate::failures::FailureCause;
use crate::message::{Message, Reply, Unjoinable, join};
use crate::policy::Policy;
use crate::sentinel;
use crate::service::{Known, Piece, Service};
use crate::stalled::Refresh;
use crate::validation::effort::Effort;

/// How far a client's question has got.
pub(crate) struct Pursuit {
    /// The question.
    pub(crate) asked: Inquiry,
    /// What has to be answered next for that.
    pub(crate) next: Inquiry,
    /// Where the client is.
    pub(crate) client: ClientPrefix,
    /// What other servers are asked for it is paid from this, from the first name of a chain to the last.
    pub(crate) budget: Budget,
    links: Option<Links>,
    /// The answer that had no AAAA records and the links that led to it, while A records are sought to make some of.
    without: Option<(Piece, Option<Links>)>,
    /// Whether AAAA records may be made for this client.
    dns64: bool,
    /// The names that a chain has led to so far, the one asked first.
    passed: Vec<LowerNameBuf>,
    chain_left: u8,
    authentic: bool,
    stale: bool,
    info: Option<ErrorInfo>,
    /// The server that the newest piece of the answer came from, if one was asked.
    pub(crate) upstream: Option<SocketAddr>,
    /// What validating takes is paid from this, likewise.
    pub(crate) effort: Effort,
}

/// The beginning of a chain.
#[derive(Clone)]
struct Links {
    message: Vec<u8>,
    /// It is from a zone served here.
    from_zone: bool,
}

/// What comes next.
pub(crate) enum Step {
    /// The answer goes out.
    Reply(Reply),
    /// Other servers are to be asked; whether there is an old answer meanwhile.
    Ask {
        /// There is one.
        stale: bool,
    },
    /// There is none.
    Refuse(Refusal),
}

/// A chain is too long or a loop, or its parts cannot be joined.
const CHAIN: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::OTHER);
/// The name says of a key what is not so (RFC 8509 §3.2).
const SENTINEL: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::OTHER);
/// A cached failure: no server answered a short time ago.
const REMEMBERED: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::CACHED_ERROR);

impl Pursuit {
    /// A question of a client.
    pub(crate) fn new(policy: &Policy, asked: Inquiry, address: std::net::IpAddr) -> Self {
        // A client that validates must see what is signed (RFC 6147 §5.5).
        let validates = asked.dnssec_ok && asked.checking_disabled;
        let dns64 = policy.dns64.as_ref().is_some_and(|dns64| dns64.applies_to(address)) && !validates;
        Pursuit {
            asked,
            next: asked,
            client: ClientPrefix::of(address),
            budget: Budget::default(),
            links: None,
            without: None,
            dns64: dns64 && asked.qtype == Type::AAAA,
            passed: vec![asked.name],
            chain_left: policy.max_chain,
            authentic: true,
            stale: false,
            info: None,
            upstream: None,
            effort: Effort::default(),
        }
    }

    /// The same behind links from a zone served here, which lead to `target`. They are not validated
    /// (RFC 4035 §3.1.6).
    pub(crate) fn behind(mut self, links: Vec<u8>, target: LowerNameBuf) -> Self {
        self.authentic = false;
        self.links = Some(Links { message: links, from_zone: true });
        self.passed.push(target);
        self.next.name = target;
        self
    }

    /// The links alone: an answer, if not a whole one.
    fn links_alone(&mut self) -> Option<Reply> {
        let Links { message, from_zone } = self.links.take()?;
        let message = Message::Own(message.into());
        Some(Reply { message, rcode: Rcode::NOERROR, authoritative: from_zone, authentic: false, info: None })
    }

    fn reply(&self, message: Message, rcode: Rcode) -> Reply {
        let stale = match rcode {
            Rcode::NXDOMAIN => ErrorInfo::STALE_NXDOMAIN,
            _ => ErrorInfo::STALE_ANSWER,
        };
        let authoritative = self.links.as_ref().is_some_and(|links| links.from_zone);
        let info = if self.stale { Some(stale) } else { self.info };
        Reply { message, rcode, authoritative, authentic: self.authentic && !self.stale, info }
    }
}

impl Service {
    /// Goes as far as what is known leads.
    pub(crate) fn pursue(&self, policy: &Policy, pursuit: &mut Pursuit, now: Now) -> Step {
        loop {
            let (piece, leads_to) = match self.known(policy, &pursuit.next, Some(pursuit.client), now) {
                Known::Answer(piece) => (piece, None),
                // Further links are asked for with what is behind them, as many as a server follows at once.
                Known::Link(..) if pursuit.links.is_some() => return Step::Ask { stale: false },
                Known::Link(piece, target) => {
                    // Nor does the first one count then.
                    pursuit.chain_left = pursuit.chain_left.saturating_add(1);
                    (piece, Some(target))
                }
                Known::Failure(Some(stale)) => (stale, None),
                Known::Failure(None) => {
                    self.stats().remembered_failures.add();
                    self.failed(&pursuit.next, FailureCause::Remembered);
                    return Step::Refuse(REMEMBERED);
                }
                Known::Bogus(reason) => {
                    self.stats().remembered_failures.add();
                    self.failed(&pursuit.next, FailureCause::RememberedBogus(reason));
                    return Step::Refuse(refusal_of(reason));
                }
                Known::Nothing(None) => return Step::Ask { stale: false },
                Known::Nothing(Some(stale)) => match self.refresh(policy, pursuit, now) {
                    Refresh::Wait => return Step::Ask { stale: true },
                    Refresh::Behind => {
                        let Pursuit { next, client, budget, effort, .. } = &*pursuit;
                        self.fetch(*next, *client, Some(budget.clone()), effort.clone());
                        (stale, None)
                    }
                    Refresh::Later => (stale, None),
                },
                Known::NoRule => {
                    let alone = pursuit.links_alone().map(Step::Reply);
                    return alone.unwrap_or(Step::Refuse(Refusal::NOT_AUTHORITATIVE));
                }
            };
            if let Some(step) = self.take(policy, pursuit, piece, leads_to, now) {
                return step;
            }
        }
    }

    /// Takes the answer to what was asked next, which may lead out of the domain of its rule. Returns nothing if more has to
    /// be asked.
    pub(crate) fn take(
        &self,
        policy: &Policy,
        pursuit: &mut Pursuit,
        piece: Piece,
        leads_to: Option<LowerNameBuf>,
        now: Now,
    ) -> Option<Step> {
        pursuit.stale |= piece.stale;
        pursuit.info = piece.info.or(pursuit.info);
        pursuit.upstream = piece.upstream.or(pursuit.upstream);
        pursuit.authentic &= piece.authentic;
        if let Some(target) = leads_to {
            let led = pursuit.lead_on(&piece, target);
            return led.err().map(|Unjoinable| self.no_chain(pursuit));
        }
        let piece = match (pursuit.without.take(), &policy.dns64) {
            // The operator does without it by now.
            (Some((without, links)), None) => {
                pursuit.links = links;
                without
            }
            (Some((without, links)), Some(dns64)) => {
                let ttl = without.negative_ttl.map(|ttl| ttl.as_secs());
                match dns64.synthesize(piece.message.bytes(), ttl) {
                    Some(made) if piece.rcode == Rcode::NOERROR => {
                        self.stats().synthesized.add();
                        pursuit.authentic = false;
                        Piece { message: Message::Own(made.into()), ..piece }
                    }
                    _ => {
                        pursuit.links = links;
                        without
                    }
                }
            }
            (None, Some(dns64)) if pursuit.dns64 && dns64.wants_synthesis(piece.message.bytes()) => {
                pursuit.without = Some((piece, pursuit.links.clone()));
                pursuit.next.qtype = Type::A;
                return None;
            }
            (None, Some(dns64)) if pursuit.dns64 => match dns64.without_excluded(piece.message.bytes()) {
                Some(usable) => Piece { message: Message::Own(usable.into()), authentic: false, ..piece },
                None => piece,
            },
            _ => piece,
        };
        if piece.stale {
            self.stats().stale.add();
        }
        Some(self.end(policy, pursuit, piece, now))
    }

    /// What is done for the next question, whose answer has expired.
    fn refresh(&self, policy: &Policy, pursuit: &Pursuit, now: Now) -> Refresh {
        self.stalled.refresh(&pursuit.next, now, policy.stale_refresh)
    }

    fn no_chain(&self, pursuit: &Pursuit) -> Step {
        self.failed(&pursuit.asked, FailureCause::AliasChain);
        Step::Refuse(CHAIN)
    }

    /// The whole answer, of which this is the last piece.
    fn end(&self, policy: &Policy, pursuit: &Pursuit, piece: Piece, now: Now) -> Step {
        if pursuit.authentic && !pursuit.stale && sentinel::lies(&policy.validation, &pursuit.asked) {
            let validates = self.realm(policy, &pursuit.asked).is_some_and(|realm| realm.validates);
            if validates {
                self.keep_failure(policy, &pursuit.asked, None, now);
                self.failed(&pursuit.asked, FailureCause::Sentinel);
                return Step::Refuse(SENTINEL);
            }
        }
        let Some(links) = &pursuit.links else {
            return Step::Reply(pursuit.reply(piece.message, piece.rcode));
        };
        let authentic = pursuit.authentic && !pursuit.stale;
        let Ok(joined) = join(&links.message, piece.message.bytes(), authentic) else {
            return self.no_chain(pursuit);
        };
        if !links.from_zone && !pursuit.dns64 && !pursuit.stale {
            self.keep(policy, &pursuit.asked, &joined, piece.negative_ttl, now);
        }
        Step::Reply(pursuit.reply(Message::Own(joined.into()), piece.rcode))
    }
}

impl Pursuit {
    /// Goes on with a name that the chain leads to, unless it has been there.
    fn lead_on(&mut self, piece: &Piece, target: LowerNameBuf) -> Result<(), Unjoinable> {
        self.chain_left = self.chain_left.checked_sub(1).ok_or(Unjoinable)?;
        if self.passed.contains(&target) {
            return Err(Unjoinable);
        }
        self.passed.push(target);
        let (message, from_zone) = match self.links.take() {
            Some(links) => (join(&links.message, piece.message.bytes(), false)?, links.from_zone),
            None => (piece.message.bytes().to_vec(), false),
        };
        self.links = Some(Links { message, from_zone });
        self.next.name = target;
        Ok(())
    }
}

/// The refusal that a client gets in place of a bogus answer.
pub(crate) fn refusal_of(reason: BogusReason) -> Refusal {
    Refusal::because(Rcode::SERVFAIL, reason.extended_error())
}

/// A message shared by all who wait for it.
pub(crate) fn shared(answer: &Arc<resolver::Answer>, trust_ad: bool) -> Piece {
    Piece {
        message: Message::Shared(Arc::clone(answer)),
        rcode: answer.rcode,
        authentic: answer.authentic && trust_ad,
        negative_ttl: answer.negative_ttl,
        stale: false,
        info: None,
        upstream: answer.by.and_then(AnsweredBy::server),
    }
}
