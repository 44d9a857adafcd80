//! Giving up root once the sockets are open. Users and groups are looked up in `/etc/passwd` and `/etc/group`
//! directly: a static binary must not load name service modules. Any step that fails stops the start.

use std::fmt;
use std::fs;

use nix::unistd::{Gid, Uid};

use sandbox::PrivilegeFault;
use telemetry::process::UserIds;

/// Why a configured user or group has no number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserFault {
    /// There is no user of this name.
    NoUser(String),
    /// There is no group of this name.
    NoGroup(String),
    /// The user's line in `/etc/passwd` has no user number.
    BrokenLine,
    /// No group is configured, and `/etc/passwd` has none for the user of this number.
    NoGroupOfUser(u32),
}

impl fmt::Display for UserFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoUser(user) => write!(f, "there is no user `{user}` in /etc/passwd"),
            Self::NoGroup(group) => write!(f, "there is no group `{group}` in /etc/group"),
            Self::BrokenLine => f.write_str("`/etc/passwd` has a broken line for the user"),
            Self::NoGroupOfUser(uid) => {
                write!(f, "/etc/passwd has no group for user {uid}: `group` must be set")
            }
        }
    }
}

impl std::error::Error for UserFault {}

/// Returns the numbers of a configured user and group, given as names or numbers.
///
/// # Errors
/// [`UserFault`] if one of them has none.
pub fn find(user: &str, group: Option<&str>) -> Result<UserIds, UserFault> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    find_in(user, group, &passwd, &groups)
}

fn find_in(user: &str, group: Option<&str>, passwd: &str, groups: &str) -> Result<UserIds, UserFault> {
    let line = passwd.lines().map(|l| l.split(':').collect::<Vec<_>>()).find(|f| match f.as_slice() {
        [name, _, uid, ..] => *name == user || *uid == user,
        _ => false,
    });
    let number = |text: Option<&&str>| text.and_then(|t| t.parse::<u32>().ok());
    let uid = match (&line, user.parse::<u32>()) {
        (Some(fields), _) => number(fields.get(2)).ok_or(UserFault::BrokenLine)?,
        (None, Ok(uid)) => uid,
        (None, Err(_)) => return Err(UserFault::NoUser(user.to_owned())),
    };
    let gid = match group {
        Some(group) => {
            let entry = groups.lines().map(|l| l.split(':').collect::<Vec<_>>()).find(|f| f[0] == group);
            match (number(entry.as_ref().and_then(|f| f.get(2))), group.parse::<u32>()) {
                (Some(gid), _) | (None, Ok(gid)) => gid,
                _ => return Err(UserFault::NoGroup(group.to_owned())),
            }
        }
        None => number(line.as_ref().and_then(|f| f.get(3))).ok_or(UserFault::NoGroupOfUser(uid))?,
    };
    Ok(UserIds { uid, gid })
}

/// Changes to another user permanently: groups, user, capabilities, and no new privileges through set-user-ID
/// programs. Must be called before the serving threads start.
///
/// # Errors
/// [`PrivilegeFault`] at the first step that the system refuses.
pub fn become_user(UserIds { uid, gid }: UserIds) -> Result<(), PrivilegeFault> {
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
    nix::unistd::setgroups(&[group]).map_err(PrivilegeFault::Groups)?;
    nix::unistd::setresgid(group, group, group).map_err(|e| PrivilegeFault::Group(gid, e))?;
    nix::unistd::setresuid(user, user, user).map_err(|e| PrivilegeFault::User(uid, e))?;
    if !user.is_root() && nix::unistd::setuid(Uid::from_raw(0)).is_ok() {
        return Err(PrivilegeFault::Revocable);
    }
    sandbox::capabilities::give_up()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnomen:x:101:102::/:/bin/false\nbad\nhalf:x:zz\n";
    const GROUPS: &str = "root:x:0:\ndns:x:107:\n";

    #[test]
    fn names_and_numbers() {
        let find = |user, group| find_in(user, group, PASSWD, GROUPS);
        assert_eq!(find("nomen", None), Ok(UserIds { uid: 101, gid: 102 }));
        assert_eq!(find("101", None), Ok(UserIds { uid: 101, gid: 102 }));
        assert_eq!(find("nomen", Some("dns")), Ok(UserIds { uid: 101, gid: 107 }));
        assert_eq!(find("5000", Some("5001")), Ok(UserIds { uid: 5000, gid: 5001 }));
        let faults = [
            ("absent", None, UserFault::NoUser("absent".into())),
            ("bad", None, UserFault::NoUser("bad".into())),
            ("5000", None, UserFault::NoGroupOfUser(5000)),
            ("nomen", Some("none"), UserFault::NoGroup("none".into())),
            ("half", None, UserFault::BrokenLine),
        ];
        for (user, group, fault) in faults {
            assert_eq!(find(user, group), Err(fault), "{user} {group:?}");
        }
    }
}
