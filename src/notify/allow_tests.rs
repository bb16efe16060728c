use super::*;

fn rules(written: &[&str]) -> Vec<AllowRule> {
    written.iter().map(|w| AllowRule::parse(w).unwrap()).collect()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn only_addresses_of_the_public_internet_need_no_permission() {
    for public in [
        "1.1.1.1",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.167.0.1",
        "198.17.0.1",
        "198.20.0.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2001:200::1",
        "2001:4860::8888",
        "64:ff9b::1.1.1.1",
        "2002:0101:0101::1",
        "::ffff:1.1.1.1",
    ] {
        assert_eq!(not_public(ip(public)), None, "{public}");
    }
    for (address, kind) in [
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.255", "loopback"),
        ("10.0.0.1", "private"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "carrier"),
        ("100.127.255.255", "carrier"),
        ("169.254.169.254", "link-local"),
        ("192.0.0.8", "reserved"),
        ("192.0.2.1", "documentation"),
        ("198.51.100.1", "documentation"),
        ("203.0.113.1", "documentation"),
        ("192.88.99.1", "reserved"),
        ("198.18.0.1", "reserved"),
        ("198.19.255.255", "reserved"),
        ("224.0.0.1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::127.0.0.1", "reserved"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:10.0.0.1", "private"),
        ("::ffff:0:7f00:1", "reserved"),
        ("64:ff9b::127.0.0.1", "loopback"),
        ("64:ff9b:1::1", "reserved"),
        ("100::1", "reserved"),
        ("2001::1", "reserved"),
        ("2001:db8::1", "documentation"),
        ("2002:7f00:1::1", "loopback"),
        ("2002:c0a8:101::1", "private"),
        ("3fff::1", "documentation"),
        ("4000::1", "reserved"),
        ("fc00::1", "private"),
        ("fd12::1", "private"),
        ("fe80::1", "link-local"),
        ("fec0::1", "reserved"),
        ("ff02::1", "multicast"),
    ] {
        assert!(
            not_public(ip(address)).is_some_and(|k| k.contains(kind)),
            "{address}: {:?}",
            not_public(ip(address))
        );
        let refused = check(&[], "x.example", ip(address), 80).unwrap_err().to_string();
        assert!(refused.starts_with("x.example leads to ") && refused.contains(kind), "{refused}");
        assert!(check(&rules(&["x.example"]), "x.example", ip(address), 80).is_ok(), "{address}");
    }
}

#[test]
fn a_rule_covers_what_it_names_and_no_more() {
    #[rustfmt::skip]
    let cases = [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1", 80, true),
        ("127.0.0.1", "127.0.0.2", "127.0.0.2", 80, false),
        ("127.0.0.1:9000", "127.0.0.1", "127.0.0.1", 9000, true),
        ("127.0.0.1:9000", "127.0.0.1", "127.0.0.1", 9001, false),
        ("127.0.0.1:9000", "hooks.lan", "127.0.0.1", 9000, true),
        ("127.0.0.1", "x", "::ffff:127.0.0.1", 80, true),
        ("127.0.0.1", "x", "::1", 80, false),
        ("127.1", "x", "127.0.0.1", 80, true),
        ("10.0.0.0/8", "x", "10.255.0.1", 80, true),
        ("10.0.0.0/8", "x", "11.0.0.1", 80, false),
        ("10.0.0.0/8", "x", "::ffff:10.1.1.1", 80, true),
        ("10.0.0.0/8:443", "x", "10.0.0.1", 443, true),
        ("10.0.0.0/8:443", "x", "10.0.0.1", 80, false),
        ("0.0.0.0/0", "x", "192.168.0.1", 80, true),
        ("0.0.0.0/0", "x", "::1", 80, false),
        ("::1", "x", "::1", 80, true),
        ("[::1]", "x", "::1", 80, true),
        ("[::1]:80", "x", "::1", 81, false),
        ("fd00::/8", "x", "fd12::1", 80, true),
        ("fd00::/8", "x", "fe80::1", 80, false),
        ("[fd00::/8]:80", "x", "fd12::1", 80, true),
        ("::/0", "x", "127.0.0.1", 80, false),
        ("hooks.lan", "hooks.lan", "10.0.0.1", 80, true),
        ("Hooks.LAN.", "hooks.lan", "10.0.0.1", 80, true),
        ("hooks.lan", "hooks.lan.", "10.0.0.1", 80, true),
        ("hooks.lan", "other.hooks.lan", "10.0.0.1", 80, false),
        ("hooks.lan:80", "hooks.lan", "10.0.0.1", 443, false),
        ("bücher.lan", "xn--bcher-kva.lan", "10.0.0.1", 80, true),
        ("localhost", "localhost", "::1", 80, true),
    ];
    for (rule, host, address, port, covered) in cases {
        let rule = AllowRule::parse(rule).unwrap();
        assert_eq!(rule.covers(host, ip(address), port), covered, "{rule} {host} {address} {port}");
        assert_eq!(AllowRule::parse(&rule.to_string()).unwrap(), rule, "it reads what it writes");
    }
}

#[test]
fn what_is_no_place_is_refused_with_a_remedy() {
    for (written, help) in [
        ("", "write"),
        ("*", "write"),
        ("*.lan", "write"),
        ("http://hooks.lan", "write"),
        ("a/b", "network as"),
        ("hooks.lan:", "port is"),
        ("hooks.lan:0", "port is"),
        ("hooks.lan:70000", "port is"),
        ("a b", "write"),
        ("user@hooks.lan", "write"),
        ("10.0.0.1/8", "\"10.0.0.0/8\""),
        ("10.0.0.0/33", "network as"),
        ("hooks.lan?x", "write"),
        ("10.0.0.0/x", "network as"),
        ("[::1", "write"),
        ("[::1]80", "write"),
        ("fd00::1/8", "\"fd00::/8\""),
        ("a..b", "write"),
    ] {
        let (message, told) = AllowRule::parse(written).unwrap_err();
        assert!(message.contains("not a host") && told.contains(help), "{written}: {message}: {told}");
    }
}

#[test]
fn a_refusal_says_what_to_add() {
    let refused = |host: &str, address: &str| check(&[], host, ip(address), 9000).unwrap_err().to_string();
    assert_eq!(
        refused("127.0.0.1", "127.0.0.1"),
        "127.0.0.1 is a loopback address, where notices are not sent; if it is meant, add \"127.0.0.1:9000\" to notify.allow"
    );
    assert!(refused("[::1]", "::1").contains("\"[::1]:9000\""));
    assert!(refused("hooks.lan", "10.0.0.7").starts_with("hooks.lan leads to a private address"));
}
