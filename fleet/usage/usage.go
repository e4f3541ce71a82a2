// Package usage shows how much processor time and memory simulated nodes and pods use: as the kubelet's pages
// /metrics/resource and /metrics/cadvisor, and as the API metrics.k8s.io, which kubectl top reads from metrics-server
// on a real cluster.
//
// It decides nothing: what is used comes from a [Source], which is fleet/kubelet. fleet/stream serves what it makes, and
// sees to who may ask.
package usage

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Source knows what is used now. It is called when somebody asks, and nothing runs in between.
type Source interface {
	// UsageNodes names the nodes whose kubelets answer, in order.
	UsageNodes() []string
	// NodeUsage is what a node and its pods use, its pods in order of namespace and name; false: it has no kubelet that
	// answers.
	NodeUsage(node string) (Node, bool)
	// Exporter is the page of metrics that the node's DCGM exporter answers with.
	Exporter(ctx context.Context, node string) ([]byte, error)
}

// Node is a node with its running pods.
type Node struct {
	Name   string
	Labels map[string]string
	Use
	Pods []Pod
}

// Pod is a pod with its running containers.
type Pod struct {
	Namespace, Name, UID string
	Labels               map[string]string
	Containers           []Container
}

// Container is one that runs.
type Container struct {
	Name, Image string
	Started     time.Time
	Use
	MemoryLimit int64   // bytes; 0: none
	CPULimit    float64 // cores; 0: none
}

// Use is of a node or a container.
type Use struct {
	Cores      float64 // now
	CPUSeconds float64 // since the start; only rises
	Memory     int64   // working set in bytes
}

// Sum is what the containers of the pod use.
func (p *Pod) Sum() Use {
	var all Use
	for i := range p.Containers {
		all.add(p.Containers[i].Use)
	}
	return all
}

func (u *Use) add(o Use) {
	u.Cores += o.Cores
	u.CPUSeconds += o.CPUSeconds
	u.Memory += o.Memory
}

// page is a text of metrics in the making.
type page struct{ b []byte }

func (p *page) family(name, kind, help string) {
	p.b = append(p.b, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

// sample writes one value; labels are name, value, name, value...
func (p *page) sample(name string, v float64, labels ...string) {
	p.b = append(p.b, name...)
	for i := 0; i+1 < len(labels); i += 2 {
		open := byte(',')
		if i == 0 {
			open = '{'
		}
		p.b = append(p.b, open)
		p.b = append(append(append(p.b, labels[i]...), `="`...), escape.Replace(labels[i+1])...)
		p.b = append(p.b, '"')
	}
	if len(labels) > 0 {
		p.b = append(p.b, '}')
	}
	p.b = strconv.AppendFloat(append(p.b, ' '), v, 'g', -1, 64)
	p.b = append(p.b, '\n')
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// each writes one sample for every container.
func (p *page) each(n *Node, name string, value func(*Container) (float64, bool), labels func(*Pod, *Container) []string) {
	for i := range n.Pods {
		for j := range n.Pods[i].Containers {
			c := &n.Pods[i].Containers[j]
			if v, ok := value(c); ok {
				p.sample(name, v, labels(&n.Pods[i], c)...)
			}
		}
	}
}

// AppendResource appends the kubelet's /metrics/resource: what metrics-server reads. Real ones have a time of measurement
// behind each value; these are of the moment.
func AppendResource(b []byte, n Node) []byte {
	p := &page{b}
	labels := func(pod *Pod, c *Container) []string {
		return []string{"container", c.Name, "namespace", pod.Namespace, "pod", pod.Name}
	}
	p.family("container_cpu_usage_seconds_total", "counter", "[STABLE] Cumulative cpu time consumed by the container in core-seconds")
	p.each(&n, "container_cpu_usage_seconds_total", func(c *Container) (float64, bool) { return c.CPUSeconds, true }, labels)
	p.family("container_memory_working_set_bytes", "gauge", "[STABLE] Current working set of the container in bytes")
	p.each(&n, "container_memory_working_set_bytes", func(c *Container) (float64, bool) { return float64(c.Memory), true }, labels)
	p.family("container_start_time_seconds", "gauge", "[STABLE] Start time of the container since unix epoch in seconds")
	p.each(&n, "container_start_time_seconds", started, labels)
	p.family("node_cpu_usage_seconds_total", "counter", "[STABLE] Cumulative cpu time consumed by the node in core-seconds")
	p.sample("node_cpu_usage_seconds_total", n.CPUSeconds)
	p.family("node_memory_working_set_bytes", "gauge", "[STABLE] Current working set of the node in bytes")
	p.sample("node_memory_working_set_bytes", float64(n.Memory))
	p.family("pod_cpu_usage_seconds_total", "counter", "[STABLE] Cumulative cpu time consumed by the pod in core-seconds")
	for i := range n.Pods {
		p.sample("pod_cpu_usage_seconds_total", n.Pods[i].Sum().CPUSeconds, "namespace", n.Pods[i].Namespace, "pod", n.Pods[i].Name)
	}
	p.family("pod_memory_working_set_bytes", "gauge", "[STABLE] Current working set of the pod in bytes")
	for i := range n.Pods {
		p.sample("pod_memory_working_set_bytes", float64(n.Pods[i].Sum().Memory), "namespace", n.Pods[i].Namespace, "pod", n.Pods[i].Name)
	}
	p.family("resource_scrape_error", "gauge", "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise")
	p.sample("resource_scrape_error", 0)
	return p.b
}

func started(c *Container) (float64, bool) { return float64(c.Started.UnixMilli()) / 1000, true }

// AppendCadvisor appends of the kubelet's /metrics/cadvisor what dashboards of clusters with GPUs show beside the GPUs:
// processor time, memory and limits by container.
func AppendCadvisor(b []byte, n Node) []byte {
	p := &page{b}
	labels := func(pod *Pod, c *Container) []string {
		return []string{
			"container", c.Name, "id", "/kubepods/pod" + pod.UID + "/" + c.Name, "image", c.Image,
			"name", c.Name, "namespace", pod.Namespace, "pod", pod.Name,
		}
	}
	for _, f := range []struct {
		name, kind, help string
		value            func(*Container) (float64, bool)
	}{
		{"container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in seconds.", func(c *Container) (float64, bool) { return c.CPUSeconds, true }},
		{"container_memory_rss", "gauge", "Size of RSS in bytes.", func(c *Container) (float64, bool) { return float64(c.Memory), true }},
		{"container_memory_usage_bytes", "gauge", "Current memory usage in bytes, including all memory regardless of when it was accessed", func(c *Container) (float64, bool) { return float64(c.Memory), true }},
		{"container_memory_working_set_bytes", "gauge", "Current working set in bytes.", func(c *Container) (float64, bool) { return float64(c.Memory), true }},
		{"container_spec_cpu_period", "gauge", "CPU period of the container.", func(c *Container) (float64, bool) { return cpuPeriod, c.CPULimit > 0 }},
		{"container_spec_cpu_quota", "gauge", "CPU quota of the container.", func(c *Container) (float64, bool) { return c.CPULimit * cpuPeriod, c.CPULimit > 0 }},
		{"container_spec_memory_limit_bytes", "gauge", "Memory limit for the container.", func(c *Container) (float64, bool) { return float64(c.MemoryLimit), true }},
		{"container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds.", started},
	} {
		p.family(f.name, f.kind, f.help)
		p.each(&n, f.name, f.value, labels)
	}
	return p.b
}

// cpuPeriod is the kernel's default, in microseconds.
const cpuPeriod = 100000
