//! Keys of `[server]` about the user and group that the process changes to once its sockets are open;
//! `privileges` of `server` does so.

use super::report::Diagnostic;
use super::table::keys;

keys! {
    /// The user and group to change to.
    pub struct Privileges {
        /// User to change to after the sockets are open: a name from `/etc/passwd` or a number. Set it when
        /// nomen is started as root: without it the process stays root and warns.
        restart "user" user: Option<String> = None, example "nomen";
        /// Group to change to: a name from `/etc/group` or a number. Unset: the user's own group.
        restart "group" group: Option<String> = None, example "nomen";
    }
}

impl Privileges {
    pub(super) fn check(&self, faults: &mut Vec<Diagnostic>) {
        if self.group.is_some() && self.user.is_none() {
            faults.push(Diagnostic::at(self.group.place.as_ref(), "`group` has no effect without `user`"));
        }
    }
}
