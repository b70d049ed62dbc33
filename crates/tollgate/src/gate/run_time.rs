//! Overrides that were set at run time: all of them at once, for whoever keeps them elsewhere, and
//! in a file, so that a restart does not forget them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use siphasher::sip::SipHasher13;

use super::overrides::{Overrides, Own};
use super::{Gate, canonical, overriding};
use crate::policy::{Client, Override, PolicyError, read_override, write_override};
use crate::store::memory::SnapshotError;

/// What a file of overrides begins with.
const MAGIC: &[u8] = b"tollgate overrides 1\n";

/// The largest file that is read: a million overrides.
const MAX_BYTES: u64 = 256 << 20;

/// Overrides set at run time; `None` where one of the policy's was taken back.
pub(super) type Changed = BTreeMap<Client, Option<Override>>;

impl Gate {
    /// Everything that is wrong with an override.
    ///
    /// # Errors
    /// Where it names an unknown rule, or its numbers are impossible.
    #[doc(hidden)]
    pub fn check_override(&self, change: &Override) -> Result<(), PolicyError> {
        self.policy().check_override(change)
    }

    /// The client of an override in the form by which it is found.
    #[doc(hidden)]
    pub fn counted_client(&self, client: &Client) -> Client {
        canonical::client(&self.0.in_force.load().compiled.addresses, client).into_owned()
    }

    /// What was set at run time; `None` where one of the policy's was taken back.
    #[doc(hidden)]
    pub fn changed_overrides(&self) -> BTreeMap<Client, Option<Override>> {
        self.0.changes.lock().overrides.clone()
    }

    /// Puts these in place of everything that was set at run time. Rules that the policy does not
    /// have are left out, and so are overrides whose numbers are impossible.
    #[doc(hidden)]
    pub fn put_overrides(&self, changed: BTreeMap<Client, Option<Override>>) {
        let mut changes = self.0.changes.lock();
        let compiled = self.0.in_force.load().compiled.clone();
        let mut overrides = Overrides::default();
        for change in overriding(&compiled, &changed) {
            if let Ok(own) = Own::new(change, &compiled, &self.0.store.0) {
                overrides.set(own, &compiled.addresses);
            }
        }
        self.0.store.0.overrides.replace(changed.clone());
        changes.overrides = changed;
        self.change_overrides(&mut changes, |in_force| *in_force = overrides);
    }

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
    /// gate.set_override(Override::new("user", "ana").numbers("api", Limit::per_hour(500)))?;
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
        for (client, change) in &self.changed_overrides() {
            let mut record = Vec::new();
            write_override(client, change.as_ref(), &mut record);
            let length = u32::try_from(record.len()).map_err(io::Error::other)?;
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(&record);
        }
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        bytes.extend_from_slice(&sum(&bytes).to_le_bytes());
        write_whole(path.as_ref(), &bytes)
    }

    /// Puts the overrides of a file that [`save_overrides`](Self::save_overrides) wrote in place of
    /// all that were set at run time.
    ///
    /// # Errors
    /// Where the file cannot be read, or is damaged; what is in force then stays.
    pub fn restore_overrides(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
        let changed = read(&bytes).ok_or_else(|| {
            let what = "it is damaged or was not written by save_overrides, restore another";
            SnapshotError::Malformed(what.to_owned())
        })?;
        self.put_overrides(changed);
        Ok(())
    }
}

fn read(bytes: &[u8]) -> Option<Changed> {
    let (content, checksum) = bytes.split_last_chunk::<8>()?;
    if u64::from_le_bytes(*checksum) != sum(content) {
        return None;
    }
    let mut rest = content.strip_prefix(MAGIC)?;
    let mut changed = Changed::new();
    loop {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 {
            return after.is_empty().then_some(changed);
        }
        let (record, after) = after.split_at_checked(length)?;
        let (client, change) = read_override(record)?;
        changed.insert(client, change);
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
