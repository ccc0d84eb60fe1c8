//! Which proxy leads to the API server, judged by the server's address as Go does
//! (`golang.org/x/net/http/httpproxy`, which kubectl uses through net/http).
//!
//! kube judges `NO_PROXY` by the proxy's own address and refuses a trailing comma.

use std::net::IpAddr;

use http::Uri;

use crate::cluster::kubeconfig::Environment;
use crate::error::Failure;

/// The proxy to use for this server: the kubeconfig's own whatever `NO_PROXY` says, else the environment's.
///
/// # Errors
/// A proxy's address that is no URL of a known scheme.
pub(crate) fn proxy_for(
    server: &Uri,
    configured: Option<&str>,
    environment: &Environment,
) -> Result<Option<Uri>, Failure> {
    if let Some(proxy) = configured {
        return parse(proxy, "proxy-url of the kubeconfig").map(Some);
    }
    let (proxy, name) = if server.scheme_str() == Some("http") {
        (&environment.http_proxy, "HTTP_PROXY")
    } else {
        (&environment.https_proxy, "HTTPS_PROXY")
    };
    match proxy {
        Some(proxy) if !bypassed(server, environment.no_proxy.as_deref().unwrap_or_default()) => {
            parse(proxy, name).map(Some)
        }
        _ => Ok(None),
    }
}

/// A proxy's address; without a scheme it is an HTTP proxy.
fn parse(proxy: &str, origin: &str) -> Result<Uri, Failure> {
    let with_scheme = if proxy.contains("://") { proxy.to_owned() } else { format!("http://{proxy}") };
    // Both spellings let the proxy resolve the server's name, in Go and in kube's connector alike.
    let with_scheme = with_scheme.replacen("socks5h://", "socks5://", 1);
    with_scheme
        .parse::<Uri>()
        .ok()
        .filter(|uri| matches!(uri.scheme_str(), Some("http" | "https" | "socks5")) && uri.host().is_some())
        .ok_or_else(|| {
            // Not the address itself: it may hold a password.
            Failure::error(format!("{origin} is not the address of a proxy"))
                .hint("write http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT")
        })
}

/// Whether the environment's proxy does not apply: to loopback never, else where `no_proxy` names the server.
fn bypassed(server: &Uri, no_proxy: &str) -> bool {
    let host = server.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_lowercase();
    let port = server.port_u16().unwrap_or(if server.scheme_str() == Some("http") { 80 } else { 443 });
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    no_proxy.split(',').map(|entry| entry.trim().to_lowercase()).filter(|entry| !entry.is_empty()).any(
        |entry| {
            if entry == "*" {
                return true;
            }
            if let Some((network, bits)) = entry.split_once('/') {
                return address.is_some_and(|address| in_network(address, network, bits));
            }
            let (name, wanted_port) = split_port(&entry);
            if wanted_port.is_some_and(|wanted| wanted != port) {
                return false;
            }
            if let Ok(wanted) = name.parse::<IpAddr>() {
                return address == Some(wanted);
            }
            // `.example.com` and `*.example.com` are the subdomains alone, `example.com` the domain, too.
            let domain = name.strip_prefix("*.").or(name.strip_prefix('.'));
            let suffix = format!(".{}", domain.unwrap_or(name));
            host.ends_with(&suffix) || (domain.is_none() && host == name)
        },
    )
}

/// Splits `HOST:PORT`; an IPv6 address has a port only behind brackets.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    if let Some(rest) = entry.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').unwrap_or((rest, ""));
        return (host, rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match entry.split_once(':') {
        Some((host, port)) if !port.contains(':') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

/// Whether the address lies in the network `10.0.0.0/8`.
fn in_network(address: IpAddr, network: &str, bits: &str) -> bool {
    let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u32>()) else { return false };
    let same = |one: u128, other: u128, width: u32| {
        bits <= width && (bits == 0 || (one ^ other) >> (width - bits) == 0)
    };
    match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => same(one.to_bits().into(), other.to_bits().into(), 32),
        (IpAddr::V6(one), IpAddr::V6(other)) => same(one.to_bits(), other.to_bits(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(https_proxy: &str, no_proxy: &str) -> Environment {
        Environment {
            https_proxy: Some(https_proxy.into()),
            no_proxy: Some(no_proxy.into()),
            ..Environment::default()
        }
    }

    fn chosen(server: &str, no_proxy: &str) -> bool {
        let environment = environment("http://proxy.corp:3128", no_proxy);
        proxy_for(&server.parse().unwrap(), None, &environment).unwrap().is_some()
    }

    #[test]
    fn no_proxy_is_judged_by_the_servers_address_not_the_proxys() {
        assert!(!chosen("https://api.example.com:6443", "example.com"));
        assert!(chosen("https://api.example.com:6443", "proxy.corp"));
        assert!(!chosen("https://10.1.2.3:6443", "10.0.0.0/8"));
        assert!(chosen("https://11.1.2.3:6443", "10.0.0.0/8"));
        assert!(!chosen("https://10.1.2.3", "10.1.2.3"));
        assert!(!chosen("https://[fd00::1]:6443", "fd00::/8"));
        assert!(!chosen("https://anything", "*"));
    }

    #[test]
    fn a_trailing_comma_in_no_proxy_means_nothing() {
        assert!(!chosen("https://api.example.com", "localhost, .example.com,"));
        assert!(chosen("https://api.elsewhere.com", "localhost,.example.com,"));
    }

    #[test]
    fn a_leading_dot_or_star_means_subdomains_alone() {
        for entry in [".example.com", "*.example.com"] {
            assert!(!chosen("https://api.example.com", entry));
            assert!(chosen("https://example.com", entry));
        }
        assert!(chosen("https://myexample.com", "example.com"));
    }

    #[test]
    fn a_port_in_no_proxy_counts() {
        assert!(!chosen("https://api.example.com:6443", "api.example.com:6443"));
        assert!(chosen("https://api.example.com:6443", "api.example.com:443"));
        assert!(!chosen("https://api.example.com", "api.example.com:443"));
    }

    #[test]
    fn a_loopback_server_is_never_reached_through_the_environments_proxy() {
        for server in ["https://127.0.0.1:6443", "https://localhost:6443", "https://[::1]:6443"] {
            assert!(!chosen(server, ""), "{server}");
        }
    }

    #[test]
    fn the_kubeconfigs_own_proxy_applies_whatever_no_proxy_says() {
        let environment = environment("http://proxy.corp:3128", "*");
        let server = "https://127.0.0.1:6443".parse().unwrap();
        let proxy = proxy_for(&server, Some("socks5://127.0.0.1:1080"), &environment).unwrap();
        assert_eq!(proxy.unwrap().to_string(), "socks5://127.0.0.1:1080/");
    }

    #[test]
    fn an_https_server_does_not_use_http_proxy_and_vice_versa() {
        let environment = Environment { http_proxy: Some("p:1".into()), ..Environment::default() };
        let proxy = |server: &str| proxy_for(&server.parse().unwrap(), None, &environment).unwrap();
        assert_eq!(proxy("https://api.example.com"), None);
        assert_eq!(proxy("http://api.example.com").unwrap(), "http://p:1");
    }

    #[test]
    fn a_proxy_that_is_no_url_is_an_error_that_names_the_variable_and_not_its_password() {
        let environment = environment("ftp://user:secret@proxy", "");
        let failure = proxy_for(&"https://api.example.com".parse().unwrap(), None, &environment).unwrap_err();
        assert!(failure.message.contains("HTTPS_PROXY"));
        assert!(!failure.message.contains("secret"));
        assert!(failure.hint.is_some());
    }
}
