package dra

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Compute domains are what the second half of NVIDIA's driver gives: pods on several nodes of an NVLink domain share memory of their GPUs
// through IMEX channels, and each of these nodes runs a daemon of the domain. The names and the order of events are those of
// NVIDIA/k8s-dra-driver-gpu 22407113, cmd/compute-domain-controller and cmd/compute-domain-kubelet-plugin.
const (
	DomainDriver = "compute-domain.nvidia.com"
	// DomainLabel on a node, a daemon or a template is the UID of its domain. It is the name of the domain's finalizer too.
	DomainLabel = "resource.nvidia.com/computeDomain"
	domainGroup = "resource.nvidia.com/v1beta1"

	DomainReady    = "Ready"
	DomainNotReady = "NotReady"

	channelDevice, daemonDevice = "channel-0", "daemon-0"
	channelConfig, daemonConfig = "ComputeDomainChannelConfig", "ComputeDomainDaemonConfig"
)

// ComputeDomain is the object, as far as it is played.
type ComputeDomain struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NumNodes int `json:"numNodes"`
		Channel  struct {
			ResourceClaimTemplate struct {
				Name string `json:"name"`
			} `json:"resourceClaimTemplate"`
			AllocationMode string `json:"allocationMode"`
		} `json:"channel"`
	} `json:"spec"`
	Status DomainStatus `json:"status"`
}

// DomainStatus is how far a domain is.
type DomainStatus struct {
	Status string       `json:"status"`
	Nodes  []DomainNode `json:"nodes,omitempty"`
}

// DomainNode is a node with a daemon of the domain.
type DomainNode struct {
	Name      string `json:"name"`
	IPAddress string `json:"ipAddress"` // the daemon's
	CliqueID  string `json:"cliqueID"`
	Index     int    `json:"index"` // of the daemon among those of its clique
	Status    string `json:"status,omitempty"`
}

// NodeStatus is that of the node in the domain; "": it is not in it.
func (d *ComputeDomain) NodeStatus(node string) string {
	if i := slices.IndexFunc(d.Status.Nodes, func(n DomainNode) bool { return n.Name == node }); i >= 0 {
		return d.Status.Nodes[i].Status
	}
	return ""
}

// With is the status of the domain with these daemons, of which each has its index already, or is to have the first that is left in its clique. The
// domain is ready when as many nodes as it wants have a daemon, and all daemons are.
func (d *ComputeDomain) With(daemons []DomainNode) DomainStatus {
	out := DomainStatus{Status: DomainReady, Nodes: slices.Clone(daemons)}
	slices.SortFunc(out.Nodes, func(a, b DomainNode) int { return cmp.Compare(a.Name, b.Name) })
	type place struct {
		clique string
		index  int
	}
	taken, settled := make(map[place]bool), make(map[string]bool)
	for i := range out.Nodes {
		n := &out.Nodes[i]
		for _, was := range d.Status.Nodes {
			if was.Name == n.Name && was.CliqueID == n.CliqueID {
				n.Index, settled[n.Name], taken[place{n.CliqueID, was.Index}] = was.Index, true, true
			}
		}
	}
	for i := range out.Nodes {
		n := &out.Nodes[i]
		if !settled[n.Name] {
			for n.Index = 0; taken[place{n.CliqueID, n.Index}]; n.Index++ {
			}
			taken[place{n.CliqueID, n.Index}] = true
		}
		if n.Status != DomainReady {
			out.Status = DomainNotReady
		}
	}
	if len(out.Nodes) < d.Spec.NumNodes {
		out.Status = DomainNotReady
	}
	return out
}

// daemonName is what the domain's DaemonSet and the template of its claims are called.
func (d *ComputeDomain) daemonName() string { return "computedomain-daemon-" + string(d.UID) }

// WorkloadTemplate is what pods get their claims of a channel from, in the domain's namespace.
func (d *ComputeDomain) WorkloadTemplate() *resourcev1.ResourceClaimTemplate {
	config := map[string]string{"kind": channelConfig, "allocationMode": cmp.Or(d.Spec.Channel.AllocationMode, "Single")}
	return d.template(d.Namespace, d.Spec.Channel.ResourceClaimTemplate.Name, "Workload", "channel", "compute-domain-default-channel.nvidia.com", config)
}

// DaemonTemplate is what the daemons get their claims from.
func (d *ComputeDomain) DaemonTemplate(namespace string) *resourcev1.ResourceClaimTemplate {
	return d.template(namespace, d.daemonName(), "Daemon", "daemon", "compute-domain-daemon.nvidia.com", map[string]string{"kind": daemonConfig})
}

func (d *ComputeDomain) template(namespace, name, target, request, class string, config map[string]string) *resourcev1.ResourceClaimTemplate {
	config["apiVersion"], config["domainID"] = domainGroup, string(d.UID)
	raw, err := json.Marshal(config)
	if err != nil {
		panic(err) // texts alone
	}
	out := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
		DomainLabel: string(d.UID), "resource.nvidia.com/computeDomainTarget": target,
	}}}
	opaque := &resourcev1.OpaqueDeviceConfiguration{Driver: DomainDriver}
	opaque.Parameters.Raw = raw
	out.Spec.Spec.Devices = resourcev1.DeviceClaim{
		Requests: []resourcev1.DeviceRequest{{Name: request, Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}},
		Config:   []resourcev1.DeviceClaimConfiguration{{Requests: []string{request}, DeviceConfiguration: resourcev1.DeviceConfiguration{Opaque: opaque}}},
	}
	return out
}

// DaemonSet has a daemon of the domain run on each node with its label. annotations are those of the pods.
func (d *ComputeDomain) DaemonSet(namespace string, annotations map[string]string) *appsv1.DaemonSet {
	const name = "compute-domain-daemon"
	labels := map[string]string{DomainLabel: string(d.UID)}
	out := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: d.daemonName(), Labels: labels}}
	out.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	out.Spec.Template.ObjectMeta = metav1.ObjectMeta{Labels: labels, Annotations: annotations}
	template := d.daemonName()
	out.Spec.Template.Spec = corev1.PodSpec{
		AutomountServiceAccountToken: new(false),
		NodeSelector:                 labels,
		Tolerations:                  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		ResourceClaims:               []corev1.PodResourceClaim{{Name: name, ResourceClaimTemplateName: &template}},
		Containers: []corev1.Container{{
			Name: name, Image: "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0", Command: []string{name, "run"},
			Env:       []corev1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "void"}},
			Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: name}}},
		}},
	}
	return out
}

// DomainSlice offers what the node has for compute domains: a channel for pods, and a daemon. Nil: it is not in an NVLink domain.
func (m Machine) DomainSlice(owner metav1.OwnerReference) *resourcev1.ResourceSlice {
	if m.Clique == "" {
		return nil
	}
	device := func(name, kind string) resourcev1.Device {
		return resourcev1.Device{Name: name, Attributes: attributes{"type": text(kind), "id": number(0)}}
	}
	out := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: m.Node + "-" + DomainDriver, OwnerReferences: []metav1.OwnerReference{owner}}}
	out.Spec.Driver, out.Spec.NodeName = DomainDriver, &m.Node
	out.Spec.Pool = resourcev1.ResourcePool{Name: m.Node, Generation: 1, ResourceSliceCount: 1}
	out.Spec.Devices = []resourcev1.Device{device(channelDevice, "channel"), device(daemonDevice, "daemon")}
	return out
}

// PermanentError is one that NVIDIA's driver does not try again upon.
type PermanentError struct{ Err error }

func (e PermanentError) Error() string { return e.Err.Error() }
func (e PermanentError) Unwrap() error { return e.Err }

// DomainUse is what a claim has of a compute domain.
type DomainUse struct {
	Domain string // the UID
	Daemon bool   // it is for a daemon of the domain; else it has a channel
}

// DomainUses are what the allocation has of compute domains, in the words of NVIDIA's driver where it makes no sense. Of several configurations
// that are for a request the last counts, and of all the claim's before its classes'.
func (m Machine) DomainUses(a *resourcev1.AllocationResult) (out []DomainUse, err error) {
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		if r.Driver != DomainDriver {
			continue
		}
		if r.Pool != m.Node || r.Device != channelDevice && r.Device != daemonDevice {
			return nil, fmt.Errorf("requested device is not allocatable: %s", r.Device)
		}
		use := DomainUse{Daemon: r.Device == daemonDevice}
		if use.Domain, err = domainOf(a.Devices.Config, r.Request, use.Daemon); err != nil {
			return nil, err
		}
		if use.Domain == "" {
			return nil, fmt.Errorf("error validating config: domainID cannot be empty")
		}
		out = append(out, use)
	}
	return out, nil
}

// domainOf is the domain that the configurations name for the request; "" for none.
func domainOf(all []resourcev1.DeviceAllocationConfiguration, request string, daemon bool) (domain string, err error) {
	want := channelConfig
	if daemon {
		want = daemonConfig
	}
	for _, source := range []resourcev1.AllocationConfigSource{resourcev1.AllocationConfigSourceClass, resourcev1.AllocationConfigSourceClaim} {
		for _, c := range all {
			if c.Source != source || c.Opaque == nil || c.Opaque.Driver != DomainDriver {
				continue
			}
			var config struct{ Kind, DomainID string }
			if err := json.Unmarshal(c.Opaque.Parameters.Raw, &config); err != nil {
				return "", PermanentError{fmt.Errorf("error decoding config parameters: %w", err)}
			}
			named := slices.Contains(c.Requests, request)
			if named && config.Kind != want {
				return "", fmt.Errorf("cannot apply %s to request: %s", config.Kind, request)
			}
			if named || len(c.Requests) == 0 && config.Kind == want {
				domain = config.DomainID
			}
		}
	}
	return domain, nil
}
