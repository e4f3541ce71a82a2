package doctor

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// Sample is one measured value: a line of an exporter's text.
type Sample struct {
	Name   string
	Labels map[string]string
	Value  float64
}

// measured is what was measured of one GPU.
type measured struct {
	host    string // as the exporter calls the node
	node    string // the node of the cluster; "": none has that name
	gpu     string // index or UUID
	model   string
	driver  string
	pod     string // namespace/name of the pod that has the GPU; "": the exporter names none
	samples []Sample
}

// Labels by which exporters name the node, the GPU and the rest: dcgm-exporter in its releases, scrapes of it through
// Prometheus, and AMD's exporter.
var (
	hostLabels  = []string{"Hostname", "hostname", "exported_hostname", "node", "kubernetes_node", "nodename", "instance"}
	gpuLabels   = []string{"gpu", "gpu_id", "UUID", "gpu_uuid", "device"}
	modelLabels = []string{"modelName", "card_model", "card_series"}
	podLabels   = []string{"exported_pod", "pod", "pod_name"}
	spaceLabels = []string{"exported_namespace", "namespace", "pod_namespace"}
)

func firstOf(labels map[string]string, keys []string) string {
	for _, k := range keys {
		if v := labels[k]; v != "" {
			return v
		}
	}
	return ""
}

// Reads says whether an item looks at the metric: of what an exporter writes, the rest need not be kept.
func Reads(metric string) bool {
	if slices.Contains(others, metric) {
		return true
	}
	for _, family := range families {
		if slices.Contains(family, metric) {
			return true
		}
	}
	return false
}

// others are metrics that are looked at beside those of the families.
var others = []string{"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_SLOWDOWN_TEMP"}

// measure groups the samples by GPU. A value that is no number says nothing.
func (c *Cluster) measure() []measured {
	hosts := c.hosts()
	at := make(map[string]*measured)
	var order []*measured
	for _, s := range c.samples {
		if !Reads(s.Name) || math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
			continue
		}
		host, gpu := firstOf(s.Labels, hostLabels), firstOf(s.Labels, gpuLabels)
		key := host + "\x00" + gpu
		m := at[key]
		if m == nil {
			m = &measured{host: host, gpu: gpu, node: hosts[shortHost(host)]}
			at[key] = m
			order = append(order, m)
		}
		m.model = cmp.Or(m.model, firstOf(s.Labels, modelLabels))
		m.driver = cmp.Or(m.driver, s.Labels["DCGM_FI_DRIVER_VERSION"])
		if pod := firstOf(s.Labels, podLabels); pod != "" && m.pod == "" {
			m.pod = firstOf(s.Labels, spaceLabels) + "/" + pod
		}
		m.samples = append(m.samples, s)
	}
	out := make([]measured, len(order))
	for i, m := range order {
		out[i] = *m
	}
	slices.SortFunc(out, func(a, b measured) int {
		return cmp.Or(strings.Compare(a.host, b.host), cmp.Compare(number(a.gpu), number(b.gpu)), strings.Compare(a.gpu, b.gpu))
	})
	return out
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return math.MaxInt
	}
	return n
}

// hosts finds nodes by the names that exporters may give them.
func (c *Cluster) hosts() map[string]string {
	out := make(map[string]string, len(c.Nodes))
	for _, p := range c.Pods { // an exporter that was not told its node's name goes by its pod's
		if p.Spec.NodeName != "" && !p.Spec.HostNetwork && strings.Contains(p.Name, "exporter") {
			out[p.Name] = p.Spec.NodeName
			out[p.Status.PodIP] = p.Spec.NodeName
		}
	}
	for _, n := range c.Nodes {
		out[shortHost(n.Labels[corev1.LabelHostname])] = n.Name
		for _, a := range n.Status.Addresses {
			out[shortHost(a.Address)] = n.Name
		}
	}
	for _, n := range c.Nodes { // the node's own name counts before all
		out[shortHost(n.Name)] = n.Name
	}
	delete(out, "")
	return out
}

// shortHost is a host's name without its port.
func shortHost(host string) string {
	if name, port, ok := strings.Cut(host, ":"); ok && number(port) != math.MaxInt {
		return name
	}
	return host
}

// value is the largest value of the metric: instances of a divided GPU have one each.
func (m *measured) value(name string) (float64, bool) {
	out, ok := math.Inf(-1), false
	for _, s := range m.samples {
		if s.Name == name {
			out, ok = max(out, s.Value), true
		}
	}
	return out, ok
}

// values are those of the metric by one of its labels, summed; only those above 0.
func (m *measured) values(name, label string) map[string]float64 {
	out := make(map[string]float64)
	for _, s := range m.samples {
		if s.Name == name && s.Value > 0 {
			out[s.Labels[label]] += s.Value
		}
	}
	return out
}

// object is the node of the GPU, as evidence names it.
func (m *measured) object() string {
	if m.node != "" {
		return nodeRef(m.node)
	}
	return "host/" + cmp.Or(m.host, "unknown")
}

func (m *measured) evidence(metric string, value float64) facts.Evidence {
	return facts.Evidence{Object: m.object(), Field: metric + `{gpu="` + m.gpu + `"}`, Value: strconv.FormatFloat(value, 'f', -1, 64)}
}

// fault is something that one GPU's numbers, or its node, show. Faults with the same text are one finding.
type fault struct {
	severity Severity
	text     string // "Xid 79 (GPU has fallen off the bus)"
	next     string
	command  string
	object   string
	gpu      string // "": of the node as a whole
	evidence facts.Evidence
}

// findings puts faults of the same kind together.
func findings(faults []fault) []Finding {
	var out []Finding
	at, where := make(map[string]int), make(map[string][]string)
	for _, f := range faults {
		key := string(f.severity) + f.text
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, Finding{Severity: f.severity, Message: f.text, Next: f.next, Command: f.command})
		}
		if !slices.Contains(out[i].Objects, f.object) {
			out[i].Objects = append(out[i].Objects, f.object)
		}
		if len(out[i].Evidence) < MaxListed {
			out[i].Evidence = append(out[i].Evidence, f.evidence)
		}
		_, name, _ := strings.Cut(f.object, "/")
		if f.gpu != "" {
			name = "GPU " + f.gpu + " of " + name
		}
		if !slices.Contains(where[key], name) {
			where[key] = append(where[key], name)
		}
	}
	//archtest:any-order each message is completed once
	for key, i := range at {
		out[i].Message += " on " + wording.Few(where[key])
		out[i].Count = len(out[i].Objects)
	}
	return out
}

// unmeasured says that an item rests on metrics and there are none; "": there are.
func (c *Cluster) unmeasured(family string) string {
	switch {
	case len(c.samples) == 0:
		return "not measured: give --metrics a file or URL of dcgm-exporter"
	case !slices.ContainsFunc(c.samples, func(s Sample) bool { return slices.Contains(families[family], s.Name) }):
		return "not measured: the metrics have none of " + wording.AtMost(2, families[family])
	}
	return ""
}

// dashed is a model's name as feature discovery writes it into a label.
func dashed(model string) string { return strings.Join(strings.Fields(model), "-") }
