//! The file of overrides that were set at run time, so that a restart does not forget them.

use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use siphasher::sip::SipHasher13;

use super::Gate;
use crate::policy::{OverrideRecord, RunTimeOverrides, read_override, write_override};
use crate::store::memory::SnapshotError;

/// What a file of overrides begins with.
const MAGIC: &[u8] = b"tollgate overrides 1\n";

/// The largest file that is read: a million overrides.
const MAX_BYTES: u64 = 256 << 20;

impl Gate {
    /// Writes the overrides that were set at run time to a file, which is there whole or not at all
    /// whenever the machine stops. They are also part of a store's
    /// [snapshot](crate::MemoryStore::snapshot).
    ///
    /// # Errors
    /// Where the file cannot be written; an earlier one is then as it was.
    ///
    /// ```
    /// use tollgate::{Gate, Limit, Override, Policy, Request, Rule};
    ///
    /// let file = std::env::temp_dir().join(format!("overrides-{}", std::process::id()));
    /// let policy = Policy::new().rule(Rule::new("api").key(["user"]).limit(Limit::per_hour(10)));
    /// let gate = Gate::new(policy.clone())?;
    /// gate.set_override(Override::new("user", "ana").limits("api", Limit::per_hour(500)))?;
    /// gate.save_overrides(&file)?;
    ///
    /// let restarted = Gate::new(policy)?;
    /// restarted.restore_overrides(&file)?;
    /// assert_eq!(restarted.check(&Request::new().with("user", "ana")).limit(), 500);
    /// # std::fs::remove_file(file)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save_overrides(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        for set in self.run_time_overrides().values() {
            let mut record = Vec::new();
            write_override(set, &mut record);
            let length = u32::try_from(record.len()).map_err(io::Error::other)?;
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(&record);
        }
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        bytes.extend_from_slice(&sum(&bytes).to_le_bytes());
        write_whole(path.as_ref(), &bytes)
    }

    /// Puts the overrides of a file that [`save_overrides`](Self::save_overrides) wrote in place of
    /// all that were set at run time. It leaves out those of clients whose override in the policy has
    /// changed meanwhile: the policy's applies.
    ///
    /// # Errors
    /// Where the file cannot be read, or is damaged; what is in force then stays.
    pub fn restore_overrides(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
        let overrides = read(&bytes).ok_or_else(|| {
            let what = "it is damaged or was not written by save_overrides, restore another";
            SnapshotError::Malformed(what.to_owned())
        })?;
        self.restore_run_time(overrides);
        Ok(())
    }
}

fn read(bytes: &[u8]) -> Option<RunTimeOverrides> {
    let (content, checksum) = bytes.split_last_chunk::<8>()?;
    if u64::from_le_bytes(*checksum) != sum(content) {
        return None;
    }
    let mut rest = content.strip_prefix(MAGIC)?;
    let mut overrides = RunTimeOverrides::new();
    loop {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 {
            return after.is_empty().then_some(overrides);
        }
        let (record, after) = after.split_at_checked(length)?;
        if let OverrideRecord::Set(set) = read_override(record)? {
            overrides.insert(set.change.client.clone(), set);
        }
        rest = after;
    }
}

fn sum(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Writes a file beside `path` and puts it in its place once it is on the disk.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside: PathBuf = path.with_file_name(name);
    let write = || {
        let mut file = File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
        return written;
    }
    // The new name itself must survive, too, where a directory can be synced at all.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Ok(folder) = File::open(folder.unwrap_or_else(|| Path::new("."))) {
        let _ = folder.sync_all();
    }
    Ok(())
}
