//! Settings of an AF_XDP front, and the mode that the system granted.

/// Where the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpAttach {
    /// In the driver if it supports that, otherwise generic.
    #[default]
    Auto,
    /// In the driver.
    Driver,
    /// In the kernel's receive path, with any driver.
    Generic,
}

/// How frames get from the card to the front's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpCopy {
    /// Without a copy if the driver supports that.
    #[default]
    Auto,
    /// The card writes to the front's memory and reads from it.
    ZeroCopy,
    /// The kernel copies.
    Copy,
}

/// Settings of an AF_XDP front.
///
/// Its queries and replies bypass the kernel: its firewall, its packet captures, its routing. A reply is sent
/// to the link address that its query came from. Cards that strip VLAN tags (`rxvlan` of `ethtool -k`) must
/// have that turned off where tagged queries are to be answered; with VLAN interfaces on top of such a card
/// there is no front. The sockets serve addresses that the host gets later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpConfig {
    /// Name of the network interface, such as `eth0`.
    pub interface: String,
    /// Number of receive queues to take, from the first: one worker each. Queries in other queues go to the
    /// sockets. Default: all.
    pub queues: Option<u32>,
    /// Where the program runs. Default: [`XdpAttach::Auto`].
    pub attach: XdpAttach,
    /// How frames get to the front's memory. Default: [`XdpCopy::Auto`].
    pub copy: XdpCopy,
    /// Frames that may wait in a queue, of 2 KiB each, or 4 KiB if the MTU is above 1774. Rounded up to a
    /// power of two, 64 to 65,536. Default: 4096.
    pub frames: usize,
}

impl XdpConfig {
    /// Returns default settings for this interface.
    pub fn new(interface: impl Into<String>) -> Self {
        XdpConfig {
            interface: interface.into(),
            queues: None,
            attach: XdpAttach::default(),
            copy: XdpCopy::default(),
            frames: 4096,
        }
    }
}

/// The mode that the system granted to a front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpMode {
    /// The program runs in the driver.
    pub driver: bool,
    /// Frames are not copied, on any queue.
    pub zero_copy: bool,
    /// Receive queues taken.
    pub queues: u32,
}
