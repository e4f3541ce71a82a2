package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/gpu"
)

// The configurations of NVIDIA's programs, which users write into ConfigMaps. Only what changes a node's devices is read;
// fields that do not are passed over, as the programs pass over what they do not know.

// maxConfig is the most that is read of one configuration, in bytes. A ConfigMap holds 1 MiB.
const maxConfig = 256 << 10

// maxReplicas is how often a device may be offered here. The plugin knows no limit; etcd does.
const maxReplicas = 1000

// pluginFile is a configuration of the device plugin and GFD.
type pluginFile struct {
	Version string `json:"version"`
	Flags   struct {
		MIGStrategy string `json:"migStrategy"`
	} `json:"flags"`
	Sharing struct {
		TimeSlicing *replicatedFile `json:"timeSlicing"`
		MPS         *replicatedFile `json:"mps"`
	} `json:"sharing"`
}

type replicatedFile struct {
	RenameByDefault            bool  `json:"renameByDefault"`
	FailRequestsGreaterThanOne *bool `json:"failRequestsGreaterThanOne"`
	Resources                  []struct {
		Name     string `json:"name"`
		Replicas *int   `json:"replicas"`
	} `json:"resources"`
}

// parsePluginConfig reads a configuration of the device plugin.
func parsePluginConfig(text string) (device.PluginConfig, error) {
	var f pluginFile
	if err := readYAML(text, &f); err != nil {
		return device.PluginConfig{}, err
	}
	if f.Version != "" && f.Version != "v1" {
		return device.PluginConfig{}, fmt.Errorf("unknown version: %s", f.Version)
	}
	c := device.PluginConfig{MIGStrategy: f.Flags.MIGStrategy}
	switch c.MIGStrategy {
	case "", device.StrategyNone, device.StrategySingle, device.StrategyMixed:
	default:
		return device.PluginConfig{}, fmt.Errorf("unknown strategy: %s", c.MIGStrategy)
	}
	var err error
	switch {
	case f.Sharing.MPS != nil:
		c.Sharing, err = f.Sharing.MPS.sharing(device.MPS, true)
	case f.Sharing.TimeSlicing != nil:
		c.Sharing, err = f.Sharing.TimeSlicing.sharing(device.TimeSlicing, false)
	}
	return c, err
}

func (f *replicatedFile) sharing(strategy string, failMany bool) (device.Sharing, error) {
	s := device.Sharing{Strategy: strategy, Rename: f.RenameByDefault, FailMany: failMany, Replicas: map[string]int{}}
	if f.FailRequestsGreaterThanOne != nil {
		s.FailMany = *f.FailRequestsGreaterThanOne
	}
	if len(f.Resources) == 0 {
		return device.Sharing{}, errors.New("no resources specified")
	}
	for _, r := range f.Resources {
		switch {
		case r.Name == "":
			return device.Sharing{}, errors.New("no resource name specified")
		case r.Replicas == nil:
			return device.Sharing{}, errors.New("no replicas specified")
		case *r.Replicas < 2:
			return device.Sharing{}, errors.New("number of replicas must be >= 2")
		case *r.Replicas > maxReplicas:
			return device.Sharing{}, fmt.Errorf("the simulated plugin offers a device at most %d times, not %d", maxReplicas, *r.Replicas)
		}
		s.Replicas[r.Name] = *r.Replicas
	}
	return s, nil
}

// migFile is a configuration of mig-parted.
type migFile struct {
	Version string               `json:"version"`
	Configs map[string][]migSpec `json:"mig-configs"`
}

type migSpec struct {
	Filter  oneOrMany      `json:"device-filter"`
	Devices migDevices     `json:"devices"`
	Enabled bool           `json:"mig-enabled"`
	Counts  map[string]int `json:"mig-devices"`
}

// oneOrMany is a text or a list of texts.
type oneOrMany []string

func (o *oneOrMany) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*o = oneOrMany{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(o))
}

// migDevices is "all" or a list of indices.
type migDevices struct {
	all  bool
	list []int
}

func (d *migDevices) UnmarshalJSON(b []byte) error {
	var word string
	if json.Unmarshal(b, &word) == nil {
		if d.all = word == "all"; !d.all {
			return fmt.Errorf("devices: %s is neither all nor a list of indices", strconv.Quote(word))
		}
		return nil
	}
	return json.Unmarshal(b, &d.list)
}

// parseMIGConfig reads one of the configurations in a file of mig-parted; false: it has none of that name.
func parseMIGConfig(text, name string) ([]gpu.MIGSpec, bool, error) {
	var f migFile
	if err := readYAML(text, &f); err != nil {
		return nil, false, err
	}
	if f.Version != "v1" {
		return nil, false, fmt.Errorf("unknown version: %q", f.Version)
	}
	list, found := f.Configs[name]
	var specs []gpu.MIGSpec
	for _, s := range list {
		specs = append(specs, gpu.MIGSpec{Filter: s.Filter, All: s.Devices.all, Devices: s.Devices.list, Enabled: s.Enabled, Counts: s.Counts})
	}
	return specs, found, nil
}

func readYAML(text string, into any) error {
	if len(text) > maxConfig {
		return fmt.Errorf("longer than %d bytes", maxConfig)
	}
	return yaml.Unmarshal([]byte(text), into)
}
