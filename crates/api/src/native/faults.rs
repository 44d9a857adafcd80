//! The HTTP status of each fault of a command.

use hyper::StatusCode;

use control::fault::{CommandFault, SigningCommandFault};
use database::DatabaseFault;
use zone_manager::zones::manager::ReloadFault;

use crate::reply::ApiFault;

/// Returns the fault of a request whose command fails: the text of the control socket, with the status.
pub(crate) fn fault_of(fault: CommandFault) -> ApiFault {
    let of_fault = ApiFault::new(status(&fault), fault.to_string());
    match fault.data() {
        Some(data) => of_fault.member("data", data),
        None => of_fault,
    }
}

fn status(fault: &CommandFault) -> StatusCode {
    use CommandFault as Fault;
    match fault {
        Fault::NotACommand(_) | Fault::TooLong(_) | Fault::Argument(_) | Fault::Query(_) => {
            StatusCode::BAD_REQUEST
        }
        Fault::NoSuchGroup(_)
        | Fault::NoSuchList(_)
        | Fault::NoSuchZone { .. }
        | Fault::NoRule(_)
        | Fault::NoNegativeAnchor(_)
        | Fault::Signing(SigningCommandFault::NoSuchKey(..)) => StatusCode::NOT_FOUND,
        // What is asked for is not configured, or the state of the zone does not allow it.
        Fault::NotRecursive
        | Fault::NoTop
        | Fault::NoLimitsTop
        | Fault::NothingDiscovered
        | Fault::NoTransactions
        | Fault::NoUpdates
        | Fault::Cookies(_)
        | Fault::NotLoaded(_)
        | Fault::NotTaken(_)
        | Fault::Order(_)
        | Fault::NotFrozen(_)
        | Fault::StaysFrozen(_)
        | Fault::File(_)
        | Fault::NotDamaged
        | Fault::UnreadableFile(_)
        | Fault::UnfitFile(_)
        | Fault::NotAccepted(_)
        | Fault::Signing(_)
        | Fault::Delegations(_)
        | Fault::Transaction { .. }
        | Fault::Policy(_)
        | Fault::Incomplete(_)
        | Fault::List { .. } => StatusCode::CONFLICT,
        Fault::Reload(fault) => of_reload(fault),
        Fault::NotRefreshed { .. } => StatusCode::BAD_GATEWAY,
        Fault::Stopping | Fault::NoReply => StatusCode::SERVICE_UNAVAILABLE,
        Fault::Write(_)
        | Fault::CacheSave(..)
        | Fault::CacheLoad(..)
        | Fault::Log(_)
        | Fault::Dnstap(_)
        | Fault::Answer(_)
        | Fault::HandOver(_) => StatusCode::INTERNAL_SERVER_ERROR,
        Fault::NoDatabase => StatusCode::CONFLICT,
        Fault::Database(fault) => of_database(fault),
        Fault::NotFollowed(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn of_database(fault: &DatabaseFault) -> StatusCode {
    match fault {
        DatabaseFault::Gone => StatusCode::NOT_FOUND,
        DatabaseFault::Exists | DatabaseFault::Refused(_) => StatusCode::CONFLICT,
        DatabaseFault::Unavailable(_) | DatabaseFault::Unclear(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn of_reload(fault: &ReloadFault) -> StatusCode {
    match fault {
        ReloadFault::NoSuchZone => StatusCode::NOT_FOUND,
        ReloadFault::Configuration(_) => StatusCode::UNPROCESSABLE_ENTITY,
        ReloadFault::HeldBack(_)
        | ReloadFault::Zone(_)
        | ReloadFault::Secondary
        | ReloadFault::Produced
        | ReloadFault::OfDatabase
        | ReloadFault::Served(_)
        | ReloadFault::NotAdded(_)
        | ReloadFault::NoState => StatusCode::CONFLICT,
        ReloadFault::Unsaved(_) | ReloadFault::Unpublished(_) => StatusCode::INTERNAL_SERVER_ERROR,
        ReloadFault::Stopping => StatusCode::SERVICE_UNAVAILABLE,
    }
}
