package inspect

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/inspect/mask"
)

// Redaction gives names new names: the same one everywhere, in fields, messages and logs. A name is changed part by
// part (train-llm-0 becomes xq3…-xk7…-0), so that names which are made from others still are. What is new depends on a
// key that is drawn for each Redaction and kept nowhere.
//
// Replaced are the names of namespaces, nodes, queues and of everything in namespaces; images, addresses of machines
// and people, names of Secrets and ConfigMaps, paths and names of hosts, and the values of labels, but for those that
// describe machines. Names of Kubernetes' and of other systems' own parts stay, as do GPU models, pools, flavors, classes
// and the keys of labels: without them nothing could be diagnosed.
type Redaction struct {
	key    []byte
	names  map[string]bool   // that are replaced
	public map[string]bool   // that are not
	parts  map[string]string // new parts by old, as they come up
	made   map[string]bool   // new parts
	near   map[string]string // parts of names that refer to nothing, and the part of an object's name that may be meant
	alike  map[string]string // values of labels that somebody asks for and nothing has, and the value that may be meant
	images *strings.Replacer
	known  map[string]string
	// longest is the length of the longest name that is replaced: more of a word need not be looked up at once.
	longest int
}

// NewRedaction knows the names in the facts. key nil draws one.
func NewRedaction(f *facts.Facts, key []byte) *Redaction {
	if key == nil {
		key = []byte(rand.Text())
	}
	known := namesIn(f)
	r := &Redaction{key: key, names: known.private, public: known.public, parts: make(map[string]string), made: make(map[string]bool), known: make(map[string]string)}
	r.alike, r.near = known.misspelt(), known.misspeltParts()
	r.learnImages(f)
	for name := range r.names {
		r.longest = max(r.longest, len(name))
	}
	return r
}

// Name is the new name.
func (r *Redaction) Name(name string) string { return r.text(name) }

// ours are names of Kubernetes' and other systems' own namespaces.
var ours = regexp.MustCompile(`^(default|kube-.*|.*-system|.*operator.*|.*nvidia.*|karpenter.*|kueue.*|kai-.*|volcano.*|hami.*|berth.*|kubeflow|monitoring)$`)

// kept are kinds whose names say what something is, not whose.
var kept = []string{
	"Lease", "PriorityClass", "RuntimeClass", "StorageClass", "DeviceClass", "ConfigMap", "Cohort", "ResourceFlavor", "AdmissionCheck", "Topology", "NodePool", "EC2NodeClass", "AKSNodeClass", "ClusterPolicy", "NVIDIADriver", "NodeReadinessRule",
	"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
}

// whose are words in the keys of labels that say whose something is, or what somebody calls it.
var whose = []string{"team", "user", "owner", "project", "tenant", "org", "organization", "department", "squad", "experiment", "email", "author", "creator", "customer", "costcenter", "cost-center", "username", "app", "instance", "part-of", "job-name", "queue-name", "queue", "kueue.x-k8s.io/queue-name"}

func personal(key string) bool {
	last := key[strings.LastIndexByte(key, '/')+1:]
	return slices.Contains(whose, last) || slices.ContainsFunc(strings.FieldsFunc(last, func(c rune) bool { return c == '-' || c == '_' || c == '.' }), func(part string) bool {
		return slices.Contains(whose[:15], part)
	})
}

var number = regexp.MustCompile(`^[0-9.]*$`)

// ordinary are words of Kubernetes' and schedulers' own messages, and what everybody calls things.
var ordinary = func() map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(`
		default main app master worker workers launcher driver leader head server client node nodes pod pods job jobs queue queues gpu gpus cpu cpus
		memory storage disk pool pools image images quota quotas limit limits request requests used container containers init claim claims volume volumes
		volumeclaim class classes device devices namespace namespaces cluster clusters scheduler error failed failure exceeded insufficient taint taints untolerated
		available unavailable preemption scheduling match matched free affinity selector rules topology spread constraints labels label key value name names
		with for not no is are was were the a an and or of in on to it its from by that this true false none null yes all any more than max min requested
		nvidia com io kubernetes k8s hostname zone region batch apps kueue karpenter volcano kai ray kubeflow pytorch torch torchrun python python3 bash sh mpi nccl cuda
		trainer replica replicas ready running pending waiting succeeded status spec metadata test workload workloads previous health default-scheduler berth v1`) {
		m[w] = true
	}
	return m
}()

// part is the new word for a part of a name.
func (r *Redaction) part(s string) string {
	if out, ok := r.parts[s]; ok {
		return out
	}
	h := hmac.New(sha256.New, r.key)
	h.Write([]byte(s))
	b := []byte{'x'}
	for n := binary.BigEndian.Uint64(h.Sum(nil)); len(b) < 9; n /= 26 { // letters alone: a number in a name means something
		b = append(b, 'a'+byte(n%26))
	}
	out := string(b)
	if near, ok := r.near[s]; ok {
		if typo := misspelt(r.part(near)); !r.made[typo] {
			out = typo
		}
	}
	r.parts[s] = out
	r.made[out] = true
	return out
}

var run = regexp.MustCompile(`[A-Za-z0-9]+`)

// machine are parts of names that say what a machine is, or that a provider puts there: they are nobody's, and by them
// a group of machines is known to have GPUs and its nodes to be its own.
var machine = regexp.MustCompile(`^(?i:grp|gke|eks|aks|gpus?|nvidia|mig|a10g?|a30|a40|a100|b[123]00|g[bh]?[23]00|h20|h[12]00|l4|l40s?|t4|v100)$`)

// edition is a part of a name that tells one of several of the same name.
var edition = regexp.MustCompile(`^v[0-9]{1,3}$`)

// renew gives every part of a name a new word, but for small numbers that stand alone: web-0 stays the first of web,
// dataset-v2 the second edition, and ip-10-0-0-7 does not stay an address.
func (r *Redaction) renew(name string, keep func(part string) bool) string {
	out := r.renewed(name, func(part string) bool { return machine.MatchString(part) || keep != nil && keep(part) })
	if out == name { // nothing but what machines are
		return r.renewed(name, keep)
	}
	return out
}

func (r *Redaction) renewed(name string, keep func(part string) bool) string {
	at := run.FindAllStringIndex(name, -1)
	digits := func(i int) bool { return i >= 0 && i < len(at) && number.MatchString(name[at[i][0]:at[i][1]]) }
	var b strings.Builder
	end := 0
	for i, span := range at {
		b.WriteString(name[end:span[0]])
		end = span[1]
		part := name[span[0]:span[1]]
		small := digits(i) && len(part) <= 3 && !digits(i-1) && !digits(i+1)
		if small || edition.MatchString(part) || keep != nil && keep(part) {
			b.WriteString(part)
			continue
		}
		b.WriteString(r.part(part))
	}
	return b.String() + name[end:]
}

var (
	word  = regexp.MustCompile(`[A-Za-z0-9]+(?:[-._]+[A-Za-z0-9]+)*`)
	mail  = regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+`)
	url   = regexp.MustCompile(`\b(?:https?|s3|gs|abfss?|wasbs?|hdfs|nfs|ssh|git|postgres(?:ql)?|mysql|redis|mongodb|aws|gce|azure)://[^\s"'<>,]+`)
	human = regexp.MustCompile(`\b([Uu]ser) "([^"]+)"`)
	ip4   = regexp.MustCompile(`\b(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\b`)
	ip6   = regexp.MustCompile(`\b[0-9a-fA-F]{1,4}(?::{1,2}[0-9a-fA-F]{1,4}){3,}\b`)
)

// text replaces the names in a text.
func (r *Redaction) text(s string) string {
	if out, ok := r.known[s]; ok {
		return out
	}
	out := s
	if strings.ContainsAny(out, "/:") {
		out = r.images.Replace(out)
		out = url.ReplaceAllStringFunc(out, func(u string) string {
			scheme, rest, _ := strings.Cut(u, "://")
			return scheme + "://" + r.renew(rest, func(p string) bool { return p == masked || number.MatchString(p) && len(p) == 5 || ordinary[p] })
		})
		out = ip6.ReplaceAllStringFunc(out, func(a string) string {
			if strings.Count(a, ":") < 4 { // a time of day
				return a
			}
			return r.part(a)
		})
	}
	out = mail.ReplaceAllStringFunc(out, r.part)
	out = human.ReplaceAllStringFunc(out, func(m string) string {
		found := human.FindStringSubmatch(m)
		if strings.HasPrefix(found[2], "system:") {
			return m
		}
		return found[1] + ` "` + r.part(found[2]) + `"`
	})
	out = ip4.ReplaceAllStringFunc(out, r.part)
	out = word.ReplaceAllStringFunc(out, r.word)
	r.known[s] = out
	return out
}

// word replaces the names in a word: it is one, or holds some as whole parts, as train-x7k2p holds train. Of names that
// overlap the first and longest counts.
func (r *Redaction) word(w string) string {
	if r.names[w] {
		return r.renew(w, nil)
	}
	at := run.FindAllStringIndex(w, -1)
	if len(at) == 1 {
		return w
	}
	var b strings.Builder
	end := 0
	for i := 0; i < len(at); {
		j := i
		for j < len(at) && at[j][1]-at[i][0] <= r.longest {
			j++
		}
		for ; j > i && !r.names[w[at[i][0]:at[j-1][1]]]; j-- {
		}
		if j == i {
			i++
			continue
		}
		b.WriteString(w[end:at[i][0]])
		b.WriteString(r.renew(w[at[i][0]:at[j-1][1]], nil))
		end, i = at[j-1][1], j
	}
	return b.String() + w[end:]
}

// learnImages enters images by their full names, which have names of people and projects in them that nothing else has.
func (r *Redaction) learnImages(f *facts.Facts) {
	all := make(map[string]bool)
	for _, p := range f.Pods {
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			all[c.Image] = true
		}
	}
	var long []string
	for image := range all {
		if !strings.ContainsAny(image, "/:") {
			if r.image(image) != image {
				r.names[image] = true
			}
			continue
		}
		long = append(long, image)
		bare, _, _ := strings.Cut(image, "@")
		if at := strings.LastIndexByte(bare, ':'); at > strings.LastIndexByte(bare, '/') {
			bare = bare[:at]
		}
		if strings.Contains(bare, "/") {
			long = append(long, bare)
		}
	}
	slices.SortFunc(long, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	var pairs []string
	for _, image := range slices.Compact(long) {
		pairs = append(pairs, image, r.image(image))
	}
	r.images = strings.NewReplacer(pairs...)
}

// public are parts of image names that everybody uses, and that say which part of the GPU software something is, or for
// which CUDA it was built.
var public = regexp.MustCompile(`^(?:v?\d+|io|com|docker|library|localhost|nvidia|k8s|kubernetes|cuda\d*|cudnn\d*|cu\d+|pytorch|torch|tensorflow|python|py\d*|base|runtime|devel|latest|stable|rc\d*|ubuntu\d*|ubi\d*|rockylinux\d*|alpine|slim|busybox|gpu|feature|discovery|device|plugin|container|toolkit|driver|mig|manager|dcgm|exporter|operator|validator|pause|sha256|[0-9a-f]{64})$`)

// image is the new name of an image; the registry, the repository and the version stay apart.
func (r *Redaction) image(s string) string { return r.renew(s, public.MatchString) }

// asIs are fields whose strings are no names, whatever they look like.
var asIs = map[string]bool{
	"apiVersion": true, "kind": true, "apiGroup": true, "group": true, "uid": true, "resourceVersion": true, "key": true, "topologyKey": true, "operator": true, "effect": true,
	"phase": true, "type": true, "reason": true, "driver": true, "resource": true, "resourceName": true, "fieldPath": true, "restartPolicy": true, "expression": true,
	"deviceClassName": true, "runtimeClassName": true, "storageClassName": true, "priorityClassName": true, "architecture": true, "operatingSystem": true,
	"provisioner": true, "attacher": true, "whenUnsatisfiable": true, "kubeletVersion": true, "kernelVersion": true, "osImage": true, "containerRuntimeVersion": true,
}

// serial are fields by which a machine can be told that nobody diagnoses by.
var serial = map[string]bool{"machineID": true, "systemUUID": true, "bootID": true}

// tree replaces the names in the value under the key.
func (r *Redaction) tree(key string, v any) any {
	switch v := v.(type) {
	case string:
		return r.leaf(key, v)
	case []any:
		for i := range v {
			v[i] = r.tree(key, v[i])
		}
	case map[string]any:
		r.fields(key, v)
	}
	return v
}

// fields replaces the names in the fields of an object under the key.
func (r *Redaction) fields(under string, m map[string]any) {
	about, _ := m["key"].(string) // of a requirement, a taint or a toleration: whose values follow
	for key, value := range m {
		switch s, isText := value.(string); {
		case labelFields[under] && isText:
			m[key] = r.value(key, s)
		case about != "" && key == "value" && isText:
			m[key] = r.value(about, s)
		case about != "" && key == "values":
			list, _ := value.([]any)
			for i := range list {
				if s, ok := list[i].(string); ok {
					list[i] = r.value(about, s)
				}
			}
		case under == "hostPath" && key == "path" && isText:
			m[key] = r.path(s)
		default:
			m[key] = r.tree(key, value)
		}
	}
}

func (r *Redaction) leaf(key, v string) string {
	switch {
	case asIs[key] || amountKeys[key] && amount.MatchString(v) || enumerated[key] && enumeration.MatchString(v) || isDigital(v) && (moment.MatchString(v) || isQuantity(v)):
		return v
	case serial[key]:
		return ""
	case key == "image" || key == "imageID":
		return r.image(v)
	case key == "providerID":
		scheme, rest, _ := strings.Cut(v, "://")
		return scheme + "://" + r.renew(rest, nil)
	case qualified.MatchString(v):
		return v
	case identities[key] && !r.names[v] && !r.public[v] && isName(v):
		return r.unknown(r.text(v))
	}
	return r.text(v)
}

// qualified are names in the domain of Kubernetes or of a system that runs on it.
var qualified = regexp.MustCompile(`^(?:[a-z0-9-]+\.)*(?:k8s\.io|kubernetes\.io|x-k8s\.io|nvidia\.com|berth\.dev|volcano\.sh|run\.ai|karpenter\.sh|kubeflow\.org|ray\.io|kai\.scheduler|amazonaws\.com|google\.com|azure\.com)/[A-Za-z0-9._-]{1,63}$`)

var moment = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$`)

// unknown is the new name of what is not among the names, and so may be anybody's: words of messages stay.
func (r *Redaction) unknown(v string) string {
	return r.renewed(v, func(part string) bool {
		return r.made[part] || mask.Vocabulary(part) || machine.MatchString(part) || len(part) < 3
	})
}

// value is the new value of a label. Values under keys that describe machines stay, as do numbers and plain words.
func (r *Redaction) value(key, v string) string {
	if alike, ok := r.alike[v]; ok && r.value(key, alike) != alike {
		return misspelt(r.value(key, alike))
	}
	if hardware(key) || strings.HasSuffix(key, "-uid") || r.public[v] && !r.names[v] || ordinary[strings.ToLower(v)] || number.MatchString(v) || v == masked || v == "" {
		return v
	}
	if out := r.text(v); out != v {
		return r.unknown(out)
	}
	return r.renewed(v, func(part string) bool { return ordinary[part] || machine.MatchString(part) })
}

// misspelt is the new value with two letters swapped: a typo stays one, and of what is not said.
func misspelt(s string) string {
	b := []byte(s)
	for i := len(b) - 1; i > 1; i-- {
		if isLetter(b[i]) && isLetter(b[i-1]) && isLetter(b[i-2]) && b[i] != b[i-1] {
			b[i], b[i-1] = b[i-1], b[i]
			return string(b)
		}
	}
	return s + "x"
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' }

// path is the new path of something on a host. Those of the GPU software and of the kubelet stay.
func (r *Redaction) path(p string) string {
	for _, start := range []string{"/var/lib/kubelet", "/run/nvidia", "/usr/bin", "/sys", "/proc", "/dev", "/var/run", "/run", "/etc", "/var/lib/berth"} {
		if p == start || strings.HasPrefix(p, start+"/") {
			return start + r.unknown(strings.TrimPrefix(p, start))
		}
	}
	return r.renew(p, nil)
}

// hardware says whether labels of the key describe machines and are never named after anybody.
func hardware(key string) bool {
	for _, start := range []string{
		"nvidia.com/", "feature.node.kubernetes.io/", "node.kubernetes.io/", "topology.kubernetes.io/", "karpenter.sh/", "karpenter.k8s.aws/", "karpenter.azure.com/", "kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/", "failure-domain.beta.kubernetes.io/",
		"cloud.google.com/", "eks.amazonaws.com/", "k8s.amazonaws.com/", "kubernetes.azure.com/", "node-role.kubernetes.io/", "node.cloudprovider.kubernetes.io/", v1alpha1.LabelRack, v1alpha1.LabelBlock, "sim.berth.dev/", "amd.com/", "pod-security.kubernetes.io/",
	} {
		if strings.HasPrefix(key, start) {
			return true
		}
	}
	return false
}
