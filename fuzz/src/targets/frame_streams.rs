//! Frames from a dnstap collector, and files that are continued.
//!
//! The specification of Frame Streams: "Control frames are variable length with a maximum of 512 bytes." A
//! decoder reads exactly the frame: its size and type match the decoded contents. A file to be continued is
//! complete up to the end that was found, and has the same end when read again; a frame appended there leaves
//! no gap.

use dnstap::{ControlFrame, MAX_CONTROL, append_frame, first_frame, resume};

pub(crate) fn run(bytes: &[u8]) {
    let mut rest = bytes;
    if let Ok(control) = ControlFrame::read(&mut rest) {
        let taken = bytes.len() - rest.len();
        let fields: usize = control.content_types.iter().map(|name| 8 + name.len()).sum();
        assert!(taken == 12 + fields && taken <= 8 + MAX_CONTROL);
        assert_eq!(bytes[8..12], (control.kind as u32).to_be_bytes());
    }
    let Ok(end) = resume(&mut &*bytes) else { return };
    let end = usize::try_from(end).expect("within the file");
    let mut file = bytes[..end].to_vec();
    assert_eq!(resume(&mut file.as_slice()).ok(), Some(end as u64));
    if end == 0 {
        return;
    }
    append_frame(&mut file, |out| out.push(7));
    assert_eq!(resume(&mut file.as_slice()).ok(), Some(file.len() as u64));
    let mut start = file.as_slice();
    ControlFrame::read(&mut start).expect("START");
    while let Some(len) = first_frame(start) {
        start = &start[len..];
    }
    assert!(start.is_empty(), "frames without a gap");
}
