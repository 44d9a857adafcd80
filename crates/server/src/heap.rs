//! The pages of the allocator's memory.
//!
//! mimalloc reserves a gibibyte at the start and requests huge pages for it, and each thread begins at a
//! place of its own there. So a server with few zones would fill some forty huge pages in part. In small
//! pages it takes what is in them. What is read at random and large (zones, the cache) requests huge pages
//! for itself; and what the allocator reserves later, when that gibibyte is full, has them as before.

use std::ops::Range;

/// Requests small pages for what the allocator has reserved so far. Without `/proc` everything stays as it
/// is.
pub(crate) fn use_small_pages() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    let probe = Box::new(0u8);
    if let Some(reserved) = mapping_of(&maps, std::ptr::from_ref::<u8>(&probe).addr()) {
        prefetch::small_pages(reserved);
    }
}

/// The addresses of the mapping that `address` lies in, from the text of `/proc/self/maps`.
fn mapping_of(maps: &str, address: usize) -> Option<Range<usize>> {
    let ranges = maps.lines().filter_map(|line| {
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
    });
    ranges.into_iter().find(|range| range.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mapping_of_an_address_is_found() {
        let maps = "00400000-0040b000 r-xp 00000000 fe:00 42   /usr/bin/nomen\n20000000000-20040000000 rw-p 00000000 00:00 0 \n\
                    7ffc0000-7ffd0000 rw-p 00000000 00:00 0   [stack]\n";
        assert_eq!(mapping_of(maps, 0x200_0000_1000), Some(0x200_0000_0000..0x200_4000_0000));
        assert_eq!(mapping_of(maps, 0x40_afff), Some(0x40_0000..0x40_b000));
        assert_eq!((mapping_of(maps, 0x40_b000), mapping_of("", 1)), (None, None));
    }
}
