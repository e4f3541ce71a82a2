package kubelet

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// image is a parsed image reference.
type image struct {
	registry   string // "docker.io" if the name has none
	repository string // "library/busybox"
	tag        string // "latest" if there is neither tag nor digest
	digest     string // "sha256:..." or ""
}

var (
	repositoryForm = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)
	registryForm   = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]+)?$`)
	tagForm        = regexp.MustCompile(`^\w[\w.-]{0,127}$`)
	digestForm     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*:[0-9a-fA-F]{32,}$`)
)

// parseImage reads a reference as container runtimes do, with the usual defaults.
func parseImage(name string) (image, error) {
	var im image
	rest, digest, hasDigest := strings.Cut(name, "@")
	if hasDigest && !digestForm.MatchString(digest) {
		return image{}, errors.New("invalid reference format")
	}
	im.digest = digest
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, '/') {
		rest, im.tag = rest[:i], rest[i+1:]
		if !tagForm.MatchString(im.tag) {
			return image{}, errors.New("invalid reference format")
		}
	}
	im.registry, im.repository = splitRegistry(rest)
	if im.repository != strings.ToLower(im.repository) {
		return image{}, fmt.Errorf("invalid reference format: repository name (%s) must be lowercase", im.repository)
	}
	if !repositoryForm.MatchString(im.repository) || !registryForm.MatchString(im.registry) {
		return image{}, errors.New("invalid reference format")
	}
	if im.tag == "" && im.digest == "" {
		im.tag = "latest"
	}
	return im, nil
}

// splitRegistry takes the first part as a host only if it looks like one.
func splitRegistry(name string) (registry, repository string) {
	first, rest, more := strings.Cut(name, "/")
	if more && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return first, rest
	}
	if !more {
		return "docker.io", "library/" + name
	}
	return "docker.io", name
}

// String is the full name, as runtimes report it in a container's status.
func (im image) String() string {
	s := im.registry + "/" + im.repository
	if im.tag != "" {
		s += ":" + im.tag
	}
	if im.digest != "" {
		s += "@" + im.digest
	}
	return s
}

// id is the image's content address: its digest, or one made up from its name.
func (im image) id() string {
	digest := im.digest
	if digest == "" {
		digest = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(im.String())))
	}
	return im.registry + "/" + im.repository + "@" + digest
}

// missing is why the image cannot be pulled, in containerd's words; "" if it can. Registries are not
// asked: a name says by itself that it does not resolve (".invalid", RFC 2606) or does not exist.
func (im image) missing() string {
	host, _, _ := strings.Cut(im.registry, ":")
	switch {
	case strings.HasSuffix(host, ".invalid"):
		return fmt.Sprintf("rpc error: code = Unknown desc = failed to pull and unpack image %q: failed to resolve reference %q: failed to do request: Head \"https://%s/v2/%s/manifests/%s\": dial tcp: lookup %s: no such host",
			im, im, im.registry, im.repository, cmp.Or(im.tag, im.digest), host)
	case strings.Contains(im.repository+":"+im.tag, "does-not-exist"):
		return fmt.Sprintf("rpc error: code = NotFound desc = failed to pull and unpack image %q: failed to resolve reference %q: %s: not found", im, im, im)
	}
	return ""
}

// unreachable is what containerd says of an image whose registry does not answer.
func (im image) unreachable() string {
	return fmt.Sprintf("rpc error: code = DeadlineExceeded desc = failed to pull and unpack image %q: failed to resolve reference %q: failed to do request: Head \"https://%s/v2/%s/manifests/%s\": dial tcp 192.0.2.10:443: i/o timeout",
		im, im, im.registry, im.repository, cmp.Or(im.tag, im.digest))
}

// conduct is what a container of an image does when its pod says no command.
type conduct struct {
	entrypoint []string // before the pod's args
	cmd        []string // instead of the pod's args
	idle       bool     // waits for SIGTERM and then ends with 0
}

// conductOf looks the image up by the last part of its repository. Of an image that is not known
// only the name of its program is assumed.
func conductOf(im image) conduct {
	base := im.repository[strings.LastIndexByte(im.repository, '/')+1:]
	switch base {
	case "pause":
		return conduct{idle: true}
	case "busybox", "alpine", "toybox":
		return conduct{cmd: []string{"sh"}}
	case "ubuntu", "debian", "fedora", "rockylinux", "almalinux", "bash", "cuda":
		return conduct{cmd: []string{"bash"}}
	case "python", "pytorch", "tensorflow", "jax":
		return conduct{cmd: []string{"python3"}}
	}
	return conduct{entrypoint: []string{base}}
}

// known says whether all programs of the image are known: it is a bare system, or a language and no more. Any other
// image holds programs that nobody here has heard of.
func (c conduct) known() bool { return len(c.cmd) > 0 }

// servesHTTP says whether images of this name answer on port 80 without saying so in the pod.
func servesHTTP(im image) bool {
	base := im.repository[strings.LastIndexByte(im.repository, '/')+1:]
	return base == "nginx" || base == "httpd"
}

// argv is what the container runs: the pod's command and args over the image's own.
func (c conduct) argv(command, args []string) []string {
	if len(command) > 0 {
		return append(append([]string(nil), command...), args...)
	}
	if len(args) == 0 {
		args = c.cmd
	}
	return append(append([]string(nil), c.entrypoint...), args...)
}

var (
	cudaTag   = regexp.MustCompile(`^(\d+)\.(\d+)`)         // nvidia/cuda:13.1.0-base-ubuntu24.04
	cudaWord  = regexp.MustCompile(`cuda[-_]?(\d+)\.(\d+)`) // pytorch:2.9.0-cuda12.8-cudnn9-runtime
	cudaShort = regexp.MustCompile(`\bcu(\d\d)(\d)\b`)      // vllm:cu128
)

// needsCUDA is the lowest CUDA version the image says it needs, "12.8"; "" if it says none.
func (im image) needsCUDA() string {
	forms := []*regexp.Regexp{cudaWord, cudaShort}
	if strings.HasSuffix("/"+im.repository, "/cuda") {
		forms = append([]*regexp.Regexp{cudaTag}, forms...)
	}
	for _, form := range forms {
		if m := form.FindStringSubmatch(im.tag); m != nil {
			return m[1] + "." + m[2]
		}
	}
	return ""
}

// olderVersion says whether version a ("12.4") is older than b, by its numbers.
func olderVersion(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		if x, y := numberAt(as, i), numberAt(bs, i); x != y {
			return x < y
		}
	}
	return false
}

func numberAt(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	n, _ := strconv.Atoi(parts[i])
	return n
}
