//! The tree of zones that all tests share, with short helpers.

use std::sync::LazyLock;

use testkit::name;
use testkit::tree::{Ended, Tree, TreeReply};
use validator::{BogusReason, InsecureReason, Security};
use wire::Type;

/// The tree.
pub(crate) static TREE: LazyLock<Tree> = LazyLock::new(Tree::new);

/// The honest answer to a question.
pub(crate) fn reply(qname: &str, qtype: Type) -> TreeReply {
    TREE.reply(name(qname), qtype)
}

/// Validates a reply.
pub(crate) fn validate(reply: &TreeReply) -> Ended {
    TREE.validate(reply)
}

/// The security state of a reply.
pub(crate) fn security(reply: &TreeReply) -> Security {
    validate(reply).validated.security
}

pub(crate) const UNSIGNED: Security = Security::Insecure(InsecureReason::Unsigned);
pub(crate) const OPT_OUT: Security = Security::Insecure(InsecureReason::OptOut);

/// Whether the state is bogus.
pub(crate) fn is_bogus(security: Security) -> bool {
    matches!(security, Security::Bogus(_))
}

/// Asserts that an answer is bogus for this reason, and the honest answer is not.
pub(crate) fn assert_bogus(reply: &TreeReply, reason: BogusReason) {
    let honest = security(&TREE.reply(reply.name, reply.qtype));
    assert!(!is_bogus(honest), "{} {}: {honest:?} unchanged", reply.name, reply.qtype);
    let ended = validate(reply);
    assert_eq!(ended.validated.security, Security::Bogus(reason), "{reply:#?}");
    assert_eq!(ended.validated.covers, [], "nothing of it may be kept");
}
