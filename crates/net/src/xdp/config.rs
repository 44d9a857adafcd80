//! What is wanted of an AF_XDP front, and what was granted.

/// Where the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpAttach {
    /// In the driver if it can, otherwise generic.
    #[default]
    Auto,
    /// In the driver.
    Driver,
    /// In the kernel's receive path, with any driver.
    Generic,
}

/// How frames get from the card to our memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpCopy {
    /// Without a copy if the driver can.
    #[default]
    Auto,
    /// The card writes to our memory and reads from it.
    ZeroCopy,
    /// The kernel copies.
    Copy,
}

/// Settings of an AF_XDP front.
///
/// What goes through it bypasses the kernel: its firewall, its packet captures, its routing. A reply goes
/// back to the link address its query came from. Cards that take VLAN tags off (`rxvlan` of `ethtool -k`)
/// must have that turned off where tagged queries are to be answered; with VLAN interfaces on top of such a
/// card there is no front. Addresses the host gets later are served through the sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpConfig {
    /// Name of the network interface, such as `eth0`.
    pub interface: String,
    /// Receive queues to take, from the first: one worker each. The others' queries go through the sockets.
    /// Default: all.
    pub queues: Option<u32>,
    /// Where the program runs. Default: [`XdpAttach::Auto`].
    pub attach: XdpAttach,
    /// How frames reach us. Default: [`XdpCopy::Auto`].
    pub copy: XdpCopy,
    /// Frames that may wait in a queue, of 2 KiB each, or 4 KiB if the MTU is above 1774. Rounded up to a
    /// power of two, 64 to 65,536. Default: 4096.
    pub frames: usize,
}

impl XdpConfig {
    /// Default settings for this interface.
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

/// What the system granted a front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpMode {
    /// The program runs in the driver.
    pub driver: bool,
    /// Frames are not copied, on any queue.
    pub zero_copy: bool,
    /// Receive queues taken.
    pub queues: u32,
}
