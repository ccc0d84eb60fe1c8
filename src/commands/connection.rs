//! From connection flags to a cluster: the one place where kubectl's flags become plain values.

use std::time::Duration;

use crate::cli::ConnectionArgs;
use crate::cluster::connect::{Cluster, ConnectionOptions, RequestTimeout};
use crate::error::Failure;
use crate::model::command::Caller;
use crate::model::duration::GoDuration;
use crate::model::target;

/// Connects as the flags say.
///
/// # Errors
/// A flag, the kubeconfig, a certificate or a credential plugin is unusable; the failure names it.
pub async fn connect(args: &ConnectionArgs) -> Result<Cluster, Failure> {
    Cluster::connect(&options(args)?).await
}

/// The flags that a suggested command repeats, to reach the same server as the same user. Never a token.
pub fn caller(args: &ConnectionArgs) -> Caller {
    let given = |flag: &Option<String>| flag.clone().filter(|value| !value.is_empty());
    let file = |flag: &Option<std::path::PathBuf>| {
        flag.as_ref().map(|path| path.to_string_lossy().into_owned()).filter(|path| !path.is_empty())
    };
    let one = [
        ("--cluster", given(&args.cluster)),
        ("--user", given(&args.user)),
        ("--server", given(&args.server)),
        ("--tls-server-name", given(&args.tls_server_name)),
        ("--certificate-authority", file(&args.certificate_authority)),
        ("--client-certificate", file(&args.client_certificate)),
        ("--client-key", file(&args.client_key)),
        ("--as-uid", given(&args.as_uid)),
    ];
    let several = [("--as-group", &args.as_group), ("--as-user-extra", &args.as_user_extra)];
    let mut further: Vec<(&'static str, String)> =
        one.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    for (name, values) in several {
        further.extend(values.iter().map(|value| (name, value.clone())));
    }
    Caller {
        context: given(&args.context),
        kubeconfig: file(&args.kubeconfig),
        as_user: given(&args.as_user),
        further,
    }
}

/// The flags as plain values.
///
/// # Errors
/// A value that its flag does not take: usage.
pub fn options(args: &ConnectionArgs) -> Result<ConnectionOptions, Failure> {
    let as_user_extra = args
        .as_user_extra
        .iter()
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(Failure::usage(format!(
                "invalid argument {pair:?} for \"--as-user-extra\": not KEY=VALUE"
            ))
            .hint("write for example --as-user-extra scopes=view")),
        })
        .collect::<Result<Vec<_>, _>>()?;
    // An empty value is what a shell leaves of an unset variable; kubectl takes it for an absent flag.
    let given = |flag: &Option<String>| flag.clone().filter(|value| !value.is_empty());
    let file = |flag: &Option<std::path::PathBuf>| flag.clone().filter(|path| !path.as_os_str().is_empty());
    if let Some(namespace) = given(&args.namespace)
        && target::check_name(&namespace).is_err()
    {
        return Err(Failure::usage(format!("invalid argument {namespace:?} for \"--namespace\""))
            .hint("the name of a namespace is one word without slash and percent sign"));
    }
    Ok(ConnectionOptions {
        namespace: given(&args.namespace),
        context: given(&args.context),
        cluster: given(&args.cluster),
        user: given(&args.user),
        kubeconfig: file(&args.kubeconfig),
        server: given(&args.server),
        token: given(&args.token),
        tls_server_name: given(&args.tls_server_name),
        certificate_authority: file(&args.certificate_authority),
        client_certificate: file(&args.client_certificate),
        client_key: file(&args.client_key),
        insecure_skip_tls_verify: args.insecure_skip_tls_verify,
        as_user: given(&args.as_user),
        as_groups: args.as_group.clone(),
        as_uid: given(&args.as_uid),
        as_user_extra,
        request_timeout: match &args.request_timeout {
            None => RequestTimeout::WhenSilent,
            Some(text) => request_timeout(text)?,
        },
        disable_compression: args.disable_compression,
    })
}

/// `--request-timeout`: a Go duration, or whole seconds without a unit (`clientcmd.ParseTimeout`).
fn request_timeout(text: &str) -> Result<RequestTimeout, Failure> {
    let parsed = match text.parse::<i64>() {
        Ok(seconds) => not_negative("--request-timeout", text, GoDuration::from_seconds(seconds))?,
        Err(_) => duration("--request-timeout", text)?,
    };
    Ok(parsed.limit().map_or(RequestTimeout::Never, RequestTimeout::After))
}

/// The value of a flag that is a time limit; `None`, no limit, for zero.
///
/// # Errors
/// Not a Go duration, or negative: usage, naming the flag.
pub fn time_limit(flag: &str, text: &str) -> Result<Option<Duration>, Failure> {
    Ok(duration(flag, text)?.limit())
}

/// The value of a flag that is a span of time.
///
/// # Errors
/// Not a Go duration, or negative: usage, naming the flag.
pub fn time_span(flag: &str, text: &str) -> Result<Duration, Failure> {
    Ok(duration(flag, text)?.or_zero())
}

fn duration(flag: &str, text: &str) -> Result<GoDuration, Failure> {
    let parsed = GoDuration::parse(text).map_err(|error| {
        Failure::usage(format!("invalid argument {text:?} for {flag:?}: {error}"))
            .hint("write a number and a unit, for example 30s, 5m or 1h30m")
    })?;
    not_negative(flag, text, parsed)
}

/// kubectl takes a negative time for none at all here, for a week there, and for one that is over elsewhere.
fn not_negative(flag: &str, text: &str, duration: GoDuration) -> Result<GoDuration, Failure> {
    if duration.is_negative() {
        return Err(Failure::usage(format!(
            "invalid argument {text:?} for {flag:?}: it may not be negative"
        ))
        .hint("write for example 30s"));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_request_timeout(text: &str) -> Result<RequestTimeout, Failure> {
        let args = ConnectionArgs { request_timeout: Some(text.into()), ..ConnectionArgs::default() };
        options(&args).map(|options| options.request_timeout)
    }

    #[test]
    fn a_request_timeout_without_a_unit_is_in_seconds() {
        assert_eq!(with_request_timeout("30"), Ok(RequestTimeout::After(Duration::from_secs(30))));
        assert_eq!(with_request_timeout("1m30s"), Ok(RequestTimeout::After(Duration::from_secs(90))));
        assert_eq!(with_request_timeout("0"), Ok(RequestTimeout::Never));
        assert_eq!(options(&ConnectionArgs::default()).unwrap().request_timeout, RequestTimeout::WhenSilent);
    }

    #[test]
    fn a_wrong_duration_is_a_usage_error_that_names_the_flag() {
        let failure = with_request_timeout("soon").unwrap_err();
        assert_eq!(failure.kind, crate::error::FailureKind::Usage);
        assert_eq!(
            failure.message,
            r#"invalid argument "soon" for "--request-timeout": invalid duration "soon""#
        );
        assert!(failure.hint.is_some());
        let failure = time_limit("--timeout", "30").unwrap_err();
        assert!(failure.message.contains("--timeout") && failure.message.contains("missing unit"));
        assert!(with_request_timeout("99999999999999999999h").is_err());
    }

    #[test]
    fn a_negative_time_is_a_usage_error_whichever_flag_it_is_of() {
        for refused in [
            time_limit("--timeout", "-5s").map(|_| ()),
            time_span("--observe", "-3s").map(|_| ()),
            with_request_timeout("-5s").map(|_| ()),
            with_request_timeout("-1").map(|_| ()),
        ] {
            let failure = refused.unwrap_err();
            assert_eq!(failure.kind, crate::error::FailureKind::Usage);
            assert!(failure.message.ends_with("it may not be negative") && failure.hint.is_some());
        }
        assert_eq!(time_limit("--timeout", "-0s"), Ok(None));
    }

    /// Something in front of the server may resolve such a path, and then it is another object's.
    #[test]
    fn a_namespace_that_leads_elsewhere_in_a_path_is_refused() {
        for namespace in ["..", ".", "a/b", "%2e%2e"] {
            let args = ConnectionArgs { namespace: Some(namespace.to_owned()), ..ConnectionArgs::default() };
            let failure = options(&args).unwrap_err();
            assert_eq!(failure.kind, crate::error::FailureKind::Usage, "{namespace}");
        }
    }

    #[test]
    fn an_empty_flag_is_an_absent_flag() {
        let args = ConnectionArgs {
            namespace: Some(String::new()),
            kubeconfig: Some("".into()),
            ..ConnectionArgs::default()
        };
        let options = options(&args).unwrap();
        assert_eq!((options.namespace, options.kubeconfig), (None, None));
    }

    #[test]
    fn suggested_commands_never_repeat_a_token() {
        let args = ConnectionArgs {
            context: Some("prod".into()),
            kubeconfig: Some("/home/me/prod.yaml".into()),
            as_user: Some("jane".into()),
            token: Some("s3cret".into()),
            server: Some("https://eu.example.com".into()),
            as_group: vec!["a".into(), "b".into()],
            ..ConnectionArgs::default()
        };
        let command = caller(&args).command("kubectl get", Some("ci"), &["pod/x"]);
        assert_eq!(
            command,
            "kubectl get -n ci --context prod --kubeconfig /home/me/prod.yaml --as jane --server https://eu.example.com \
             --as-group a --as-group b pod/x"
        );
    }
}
