//! A headless Chromium, driven over a pipe in its own protocol: one JSON object after another, each closed by a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// Names under which it is installed.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The browser on the path, if there is one; `REDFENCE_CHROMIUM` names another.
pub(crate) fn installed() -> Option<String> {
    let named = std::env::var("REDFENCE_CHROMIUM").ok();
    let mut names = named.into_iter().chain(NAMES.map(str::to_owned));
    names.find(|name| {
        let quiet = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        quiet.is_ok_and(|status| status.success())
    })
}

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    page: String,
    calls: u64,
    profile: std::path::PathBuf,
}

impl Browser {
    /// Starts it.
    pub(crate) fn start(program: &str) -> Self {
        let profile = std::env::temp_dir().join(format!("redfence-browser-{}", std::process::id()));
        // The browser reads commands from descriptor 3 and writes answers to 4.
        let script = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null"#;
        let mut child = Command::new("sh")
            .args([
                "-c",
                script,
                program,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .args([
                "--remote-debugging-pipe",
                "--hide-scrollbars",
                "--window-size=1280,720",
                "--no-first-run",
            ])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-extensions"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the browser starts");
        let to = child.stdin.take().expect("a pipe to it");
        let from = BufReader::new(child.stdout.take().expect("a pipe from it"));
        let mut browser = Self { child, to, from, page: String::new(), calls: 0, profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        browser.page = session["sessionId"].as_str().expect("a session").to_owned();
        let size = json!({"width": 1280, "height": 720, "deviceScaleFactor": 1, "mobile": false});
        browser.call("Emulation.setDeviceMetricsOverride", size);
        browser
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": parameters});
        if !self.page.is_empty() {
            message["sessionId"] = json!(self.page);
        }
        self.to.write_all(message.to_string().as_bytes()).expect("it listens");
        self.to.write_all(&[0]).expect("it listens");
        self.to.flush().expect("it listens");
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).expect("it answers");
            bytes.pop();
            let answer: Value = serde_json::from_slice(&bytes).expect("it answers in JSON");
            if answer["id"] == json!(self.calls) {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Goes to an address.
    pub(crate) fn open(&mut self, address: &str) {
        self.call("Page.navigate", json!({"url": address}));
        self.until("document.readyState === 'complete'");
        let address = serde_json::to_string(address).expect("text");
        self.until(&format!("location.href === {address} || document.querySelector('main')"));
    }

    /// The value of an expression on the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        self.call("Runtime.evaluate", asked)["result"]["value"].clone()
    }

    /// The text of an element.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let selector = serde_json::to_string(selector).expect("text");
        let value = self.value(&format!("(document.querySelector({selector}) || {{}}).innerText || ''"));
        value.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page is there with all that belongs to it, and an expression is true.
    #[track_caller]
    pub(crate) fn until(&mut self, expression: &str) {
        // Two minutes: a loaded machine searches for a while before it can draw.
        for _ in 0..2_400 {
            if self.value(&format!("document.readyState === 'complete' && Boolean({expression})"))
                == json!(true)
            {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let (place, body) = (self.value("location.href"), self.text("main"));
        panic!("never true: {expression}\nat {place}\n{body}");
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        let text = if key.len() == 1 { key } else { "" };
        let down =
            json!({"type": if text.is_empty() { "rawKeyDown" } else { "keyDown" }, "key": key, "text": text});
        self.call("Input.dispatchKeyEvent", down);
        self.call("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}));
    }

    /// Clicks on an element with the mouse.
    #[track_caller]
    pub(crate) fn click(&mut self, selector: &str) {
        let quoted = serde_json::to_string(selector).expect("text");
        self.until(&format!("document.querySelector({quoted})"));
        let middle = self.value(&format!(
            "(() => {{ const e = document.querySelector({quoted}); e.scrollIntoView({{block: 'center'}}); \
             const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({"type": kind, "x": middle[0], "y": middle[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Light or dark.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Saves a picture of the page, if `REDFENCE_SCREENSHOTS` names a folder.
    pub(crate) fn picture(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("REDFENCE_SCREENSHOTS") else { return };
        for scheme in ["light", "dark"] {
            self.prefer(scheme);
            let shot = self.call("Page.captureScreenshot", json!({"format": "png"}));
            let bytes = decode(shot["data"].as_str().expect("a picture"));
            let file = std::path::Path::new(&folder).join(format!("{name}-{scheme}.png"));
            std::fs::write(file, bytes).expect("the folder can be written to");
        }
        self.prefer("light");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

/// Base64.
fn decode(text: &str) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|byte| LETTERS.iter().position(|letter| *letter == byte));
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0u32);
    for digit in digits {
        held = held << 6 | u32::try_from(digit).unwrap_or(0);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 255).unwrap_or(0));
        }
    }
    bytes
}
