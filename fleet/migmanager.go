package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/gpu"
)

// The labels by which NVIDIA's MIG manager and those who want something of it talk.
const (
	migConfigLabel = "nvidia.com/mig.config"
	migStateLabel  = "nvidia.com/mig.config.state"
	migDeployLabel = "nvidia.com/gpu.deploy.mig-manager"
	// pausedForMIG is the value of a deploy label while its pod has to be away.
	pausedForMIG = "paused-for-mig-change"
)

const (
	migPending   = "pending"
	migRebooting = "rebooting"
	migSuccess   = "success"
	migFailed    = "failed"
)

// migConfigMap has configurations besides those that mig-parted brings along, under the key config.yaml, in the namespace
// of the MIG manager.
const migConfigMap = "mig-parted-config"

// migClients are the programs of the GPU stack that hold the GPUs open, and the labels that deploy them.
var migClients = map[device.Role]string{
	device.Plugin: "nvidia.com/gpu.deploy.device-plugin",
	device.GFD:    "nvidia.com/gpu.deploy.gpu-feature-discovery",
	device.DCGM:   "nvidia.com/gpu.deploy.dcgm-exporter",
}

// syncMIG is the MIG manager on a node: it takes one step towards what the label nvidia.com/mig.config asks for, as labels
// to be written. Nil: there is nothing to do, or it has to wait for pods to go.
//
//	config is new --unknown, or not for these GPUs--> failed
//	    |    '--GPUs are cut so already--> success
//	    v
//	pending: its clients' labels say paused-for-mig-change, and the DaemonSets take their pods away
//	    |
//	    |--the mode of a GPU changes that needs a reset, and the pod has WITH_REBOOT--> rebooting, then on
//	    '--no client is left--> the GPUs are cut --> success, or failed where a pod still holds one; the clients come back
//
// A configuration that failed is tried again when the label changes or the MIG manager's pod is another.
func (c *controller) syncMIG(ctx context.Context, m *machine, node *corev1.Node) (map[string]string, error) {
	pods := c.pods.StackPods(m.name)
	at := slices.IndexFunc(pods, func(p device.StackPod) bool { return p.Role == device.MIG && p.Ready })
	config := node.Labels[migConfigLabel]
	if at < 0 || config == "" || !m.devices.DriverReady() {
		return nil, nil
	}
	task := config + " " + pods[at].Name
	state := node.Labels[migStateLabel]
	if m.migTask() == task && (state == migSuccess || state == migFailed) {
		return nil, nil
	}
	next, err := c.resolveMIG(ctx, m, config, pods[at])
	if err != nil && !isMIGError(err) {
		return nil, err
	}
	if err == nil && !device.SamePartitions(m.devices.Partitions(), next) {
		if labels := paused(node.Labels); state != migPending && state != migRebooting || labels != nil {
			return with(labels, migStateLabel, migPending), nil
		}
		if slices.ContainsFunc(pods, func(p device.StackPod) bool { return migClients[p.Role] != "" }) {
			return nil, nil
		}
		if state == migPending && pods[at].Env["WITH_REBOOT"] == "true" && m.devices.NeedsReset(next) {
			return map[string]string{migStateLabel: migRebooting}, nil
		}
		err = m.devices.Repartition(next)
	}
	m.setMIGTask(task)
	if err != nil {
		c.log.Info("MIG configuration failed", "node", m.name, "config", config, "err", err)
		return with(resumed(node.Labels), migStateLabel, migFailed), nil
	}
	return with(resumed(node.Labels), migStateLabel, migSuccess), nil
}

// migError is a mistake in a configuration, as opposed to an API server that does not answer.
type migError struct{ error }

func isMIGError(err error) bool {
	_, ok := errors.AsType[migError](err)
	return ok
}

// resolveMIG is the GPUs as the configuration wants them: one of the ConfigMap, else one of mig-parted's own.
func (c *controller) resolveMIG(ctx context.Context, m *machine, config string, manager device.StackPod) ([]gpu.Partition, error) {
	devices := m.devices.Devices()
	specs, found, err := c.userMIG(ctx, config, manager.Namespace())
	if err != nil {
		return nil, err
	}
	if !found {
		specs, found = gpu.NamedMIG(config, devices)
	}
	if !found {
		return nil, migError{fmt.Errorf("there is no MIG configuration %q for the GPUs of this node", config)}
	}
	next, err := gpu.ApplyMIG(specs, devices, m.devices.Partitions())
	if err != nil {
		return nil, migError{err}
	}
	return next, nil
}

func (c *controller) userMIG(ctx context.Context, config, namespace string) ([]gpu.MIGSpec, bool, error) {
	cm, err := c.client.CoreV1().ConfigMaps(namespace).Get(ctx, migConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read MIG configurations: %w", err)
	}
	text, has := cm.Data["config.yaml"]
	if !has {
		return nil, false, nil
	}
	specs, found, err := parseMIGConfig(text, config)
	if err != nil {
		return nil, false, migError{fmt.Errorf("ConfigMap %s: %w", migConfigMap, err)}
	}
	return specs, found, nil
}

// paused is the clients' labels that still have to change so that their pods go; nil: none has.
func paused(labels map[string]string) map[string]string {
	return relabel(labels, func(value string) string {
		if value == "" || value == "false" {
			return value
		}
		return pausedForMIG
	})
}

// resumed is the clients' labels that bring their pods back.
func resumed(labels map[string]string) map[string]string {
	return relabel(labels, func(value string) string {
		if value == pausedForMIG {
			return "true"
		}
		return value
	})
}

func relabel(labels map[string]string, next func(string) string) map[string]string {
	var out map[string]string
	for _, key := range migClients {
		if value := next(labels[key]); value != labels[key] {
			out = with(out, key, value)
		}
	}
	return out
}

// with is the map with one entry more. The input is not changed.
func with(labels map[string]string, key, value string) map[string]string {
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}

// stepMIG carries out a step of the MIG manager; true: the node was written, and its event leads here again.
func (c *controller) stepMIG(ctx context.Context, m *machine, node *corev1.Node) (bool, error) {
	labels, err := c.syncMIG(ctx, m, node)
	if err != nil || labels == nil {
		return false, err
	}
	out := node.DeepCopy()
	out.Labels = cloneLabels(out.Labels)
	maps.Copy(out.Labels, labels)
	_, err = c.client.CoreV1().Nodes().Update(ctx, out, metav1.UpdateOptions{})
	if err == nil && labels[migStateLabel] == migRebooting {
		now := time.Now()
		m.reboot(now)
		c.log.Info("reboot for MIG", "node", m.name)
		c.pods.NodeChanged(m.name)
		c.wakeAt(m.name, m.next(now), now)
	}
	return true, wrap(err, "label node %s", m.name)
}

// pluginConfigLabel says which configuration of the device plugin a node has.
const pluginConfigLabel = "nvidia.com/device-plugin.config"

// defaultPluginConfig is the configuration of nodes without the label, where there is one of that name.
const defaultPluginConfig = "default"

// configurePlugin tells the device side how its plugin is configured: by the entry of the ConfigMap that the node's label
// names. Like the plugin's config manager it looks when the label changes or the pods are others, not when the ConfigMap
// does. An entry that is not there, or cannot be read, leaves the configuration as it was.
func (c *controller) configurePlugin(ctx context.Context, m *machine, node *corev1.Node, pods []device.StackPod) error {
	at := slices.IndexFunc(pods, func(p device.StackPod) bool { return p.ConfigMap != "" && p.Ready && migClients[p.Role] != "" })
	if at < 0 {
		return nil
	}
	name := node.Labels[pluginConfigLabel]
	if name == "" {
		name = defaultPluginConfig
	}
	task := name + " " + pods[at].Name
	if m.pluginTask() == task {
		return nil
	}
	cm, err := c.client.CoreV1().ConfigMaps(pods[at].Namespace()).Get(ctx, pods[at].ConfigMap, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read configurations of the device plugin: %w", err)
	}
	m.setPluginTask(task)
	if err != nil {
		c.log.Info("no configuration of the device plugin", "node", m.name, "config", name, "err", err)
		return nil
	}
	config, err := parsePluginConfig(cm.Data[name])
	if _, has := cm.Data[name]; !has || err != nil {
		c.log.Info("no configuration of the device plugin", "node", m.name, "config", name, "err", err)
		return nil
	}
	m.devices.SetPluginConfig(config)
	return nil
}
