package l4

import (
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

const (
	outdated       = "it is of a format that the node's container runtime does not take any more"
	otherPlatform  = "it was not built for the node's architecture"
	denied         = "the registry denies access: a pull secret is missing or wrong"
	deniedOrNone   = "it does not exist, or may not be read without a pull secret"
	unsigned       = "its signature is not accepted"
	diskFull       = "the node's disk is full"
	kubeletLimited = "the kubelet of its node pulls no more images for now (registryPullQPS)"
	rateLimited    = "the registry takes no more requests for now (rate limit)"
	runtimeSilent  = "the container runtime of its node does not answer"
	untrusted      = "the node does not accept the registry's certificate"
	noAnswer       = "the registry does not answer"
	broken         = "the registry, or what the node does with it, fails"
)

// pullFailure says in words why an image does not come, and whose it is.
func pullFailure(reason, text string) (what string, owner check.Owner) {
	switch {
	case reason == "InvalidImageName" || wording.Mentions(text, "couldn't parse image", "invalid reference format"):
		return "the name is no image reference", check.ML
	case reason == "ErrImageNeverPull":
		return "it is not on the node, and imagePullPolicy Never forbids to pull it", check.ML
	case reason == "SignatureValidationFailed":
		return unsigned, check.Policy
	case wording.Mentions(text, "no space left"):
		return diskFull, check.Platform
	case wording.Mentions(text, "toomanyrequests", "too many requests", "rate limit"):
		return rateLimited, check.Platform
	case wording.Mentions(text, "pull qps exceeded"):
		return kubeletLimited, check.Platform
	case wording.Mentions(text, "is no longer supported since"):
		return outdated, check.ML
	case wording.Mentions(text, "no match for platform", "exec format"):
		return otherPlatform, check.ML
	case wording.Mentions(text, "dial unix "): // of the node itself, as are all of its sockets
		return runtimeSilent, check.Platform
	case wording.Mentions(text, "x509:"):
		return untrusted, check.Platform
	case reason == "RegistryUnavailable", wording.Mentions(text, "connection refused", "i/o timeout", "no such host", "tls handshake", "server misbehaving", "deadline exceeded", "unexpected eof", "connection reset", "no route to host", "service unavailable", "bad gateway", "internal server error"):
		return noAnswer, check.Platform
	case wording.Mentions(text, "http response to https client", "unexpected commit digest", "failed to extract layer", "failed precondition", "error creating overlay", "snapshot", "content store", "proxyconnect", "context canceled", "input/output error", "read-only file system"):
		return broken, check.Platform
	case wording.Mentions(text, "pull access denied", "repository does not exist"):
		return deniedOrNone, check.ML
	case wording.Mentions(text, "401", "403", "unauthorized", "authentication required", "denied", "insufficient_scope", "forbidden"):
		return denied, check.ML
	case wording.Mentions(text, "not found", "manifest unknown", "name unknown", "notfound", "does not exist"):
		return "there is no such image or tag", check.ML
	}
	return "it cannot be pulled", check.ML
}

// pullAdvice is what helps where neither name nor secret is at fault.
var pullAdvice = map[string]string{
	outdated:       "Build the image anew, or copy it with a tool that writes its manifest in today's format (OCI, or Docker's schema 2).",
	diskFull:       "Free space on the node's disk for images, or move the pod to another node; the kubelet removes unused images only when the disk is nearly full.",
	kubeletLimited: "Wait: the kubelet tries again. Where pods start many at a time, raise registryPullQPS and registryBurst in the kubelet's configuration.",
	rateLimited:    "Wait: the kubelet tries again. Pull as somebody who may pull more, or through a mirror of the registry.",
	runtimeSilent:  "Have the container runtime of the node (containerd, CRI-O) started again, and its log looked at; until then move the work to another node.",
	noAnswer:       "Have the registry, or the way from the nodes to it, repaired: its name, its certificate, a proxy, a firewall.",
	untrusted:      "Have the registry's certificate renewed where it has expired, or the authority that signed it made known to the nodes' container runtime; look at the clock of the node too.",
	broken:         "Have the node's container runtime, its disk, and the way to the registry looked at: a mirror or proxy, https where the registry speaks http.",
	unsigned:       "Sign the image as the nodes' policy wants it, or have the policy changed.",
}

// registryOf is the host in an image's name, "docker.io" where it has none; repositoryOf the name without tag and
// digest.
func registryOf(image string) string {
	host, _, ok := strings.Cut(image, "/")
	if !ok || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return "docker.io"
	}
	return host
}

func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if at := strings.LastIndexByte(image, ':'); at > strings.LastIndexByte(image, '/') {
		image = image[:at]
	}
	return image
}
