package v1alpha1

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	modelName     = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9 ._-]*[A-Za-z0-9])?$`)
	driverVersion = regexp.MustCompile(`^[0-9]{3}\.[0-9]{1,3}(\.[0-9]{1,3})?$`)
	cudaVersion   = regexp.MustCompile(`^[0-9]{1,2}\.[0-9]{1,2}$`)
)

func validateGPUs(s *PoolSpec, spec *field.Path) field.ErrorList {
	if s.GPUs == nil {
		return validateNoGPUs(s, spec)
	}
	if len(s.GPUs) == 0 {
		return field.ErrorList{field.Required(spec.Child("gpus"), "list a model and a count, or leave gpus out for nodes without GPUs")}
	}
	errs := validateGPUList(s.GPUs, spec.Child("gpus"))
	errs = append(errs, oneOf(spec.Child("nvlink"), s.NVLink, NVLinkAuto, NVLinkNone, NVLinkPairs, NVLinkFull)...)
	errs = append(errs, validateDriver(&s.Driver, spec.Child("driver"))...)
	errs = append(errs, oneOf(spec.Child("advertise"), s.Advertise, AdvertiseDevicePlugin, AdvertiseDRA)...)
	errs = append(errs, oneOf(spec.Child("gpuStack"), s.GPUStack, GPUStackOperator, GPUStackNone)...)
	errs = append(errs, validateSharing(s, spec.Child("sharing"))...)
	return append(errs, validateMIG(s, spec.Child("mig"))...)
}

func validateSharing(s *PoolSpec, at *field.Path) field.ErrorList {
	if s.Sharing == "" {
		return nil
	}
	errs := oneOf(at, s.Sharing, SharingHAMi, SharingVolcano, SharingBerth)
	switch {
	case s.Advertise == AdvertiseDRA && s.Sharing != SharingHAMi:
		errs = append(errs, field.Forbidden(at, "needs advertise: device-plugin, unless it is hami"))
	case s.MIG != MIG{}:
		errs = append(errs, field.Forbidden(at, "has no meaning together with mig"))
	case s.GPUStack == GPUStackNone:
		errs = append(errs, field.Forbidden(at, "needs gpuStack: operator"))
	}
	return errs
}

// validateMIG does not know which configurations there are: a ConfigMap may have more.
func validateMIG(s *PoolSpec, at *field.Path) field.ErrorList {
	if s.MIG == (MIG{}) {
		return nil
	}
	errs := oneOf(at.Child("strategy"), s.MIG.Strategy, MIGStrategyNone, MIGStrategySingle, MIGStrategyMixed, MIGStrategyDynamic)
	if len(validation.IsValidLabelValue(s.MIG.Config)) > 0 {
		errs = append(errs, field.Invalid(at.Child("config"), s.MIG.Config, labelValueRule(validation.LabelValueMaxLength)))
	}
	dynamic := s.MIG.Strategy == MIGStrategyDynamic
	switch {
	case dynamic && s.Advertise != AdvertiseDRA:
		errs = append(errs, field.Forbidden(at.Child("strategy"), "dynamic needs advertise: dra"))
	case s.Advertise == AdvertiseDRA && s.MIG.Config != "":
		errs = append(errs, field.Forbidden(at.Child("config"), "needs advertise: device-plugin; with dra, claims cut the GPUs"))
	case s.Advertise == AdvertiseDRA && !dynamic && len(errs) == 0:
		errs = append(errs, field.Forbidden(at.Child("strategy"), "must be dynamic with advertise: dra, since it is not a device plugin that offers the GPUs"))
	}
	if s.GPUStack == GPUStackNone {
		errs = append(errs, field.Forbidden(at, "needs gpuStack: operator"))
	}
	return errs
}

// validateNoGPUs refuses what only GPUs could use: somebody forgot them.
func validateNoGPUs(s *PoolSpec, spec *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"nvlink", s.NVLink != ""},
		{"driver", s.Driver != Driver{}},
		{"mig", s.MIG != MIG{}},
		{"advertise", s.Advertise != ""},
		{"sharing", s.Sharing != ""},
		{"gpuStack", s.GPUStack != GPUStackNone},
	} {
		if f.set {
			errs = append(errs, field.Forbidden(spec.Child(f.name), "has no meaning in a pool without gpus"))
		}
	}
	return errs
}

func validateGPUList(gpus []GPU, at *field.Path) field.ErrorList {
	if len(gpus) > maxModels {
		return field.ErrorList{field.TooMany(at, len(gpus), maxModels)}
	}
	var errs field.ErrorList
	total := int64(0)
	for i, g := range gpus {
		errs = append(errs, validateGPU(g, at.Index(i))...)
		total += int64(g.Count)
	}
	if len(errs) == 0 && total > maxGPUs {
		errs = append(errs, field.Invalid(at, total, fmt.Sprintf("a node has at most %d GPUs", maxGPUs)))
	}
	return errs
}

func validateGPU(g GPU, at *field.Path) field.ErrorList {
	errs := between(at.Child("count"), int64(g.Count), 1, maxGPUs)
	if g.Memory != nil {
		errs = append(errs, atLeast(at.Child("memory"), *g.Memory, "80Gi")...)
	}
	if g.Model == "" {
		return append(errs, field.Required(at.Child("model"), "name the GPU model, such as H100-SXM5-80GB"))
	}
	if len(g.Model) > validation.LabelValueMaxLength {
		return append(errs, field.Invalid(at.Child("model"), g.Model, "must be at most 63 characters"))
	}
	return append(errs, matches(at.Child("model"), g.Model, modelName,
		"must be letters, digits, spaces, -, _ and ., with a letter or digit at both ends")...)
}

func validateDriver(d *Driver, at *field.Path) field.ErrorList {
	errs := matches(at.Child("version"), d.Version, driverVersion, "must look like 580.95.05")
	errs = append(errs, matches(at.Child("cuda"), d.CUDA, cudaVersion, `must look like "13.0"`)...)
	if len(errs) > 0 {
		return errs
	}
	if d.Version == "" {
		errs = append(errs, field.Required(at.Child("version"), "no driver is known for CUDA "+d.CUDA+"; give its version"))
	}
	if d.CUDA == "" {
		errs = append(errs, field.Required(at.Child("cuda"), "driver "+d.Version+" is of no known branch; give the newest CUDA it runs"))
	}
	return errs
}

func validateMachine(s *PoolSpec, spec *field.Path) field.ErrorList {
	errs := validateCPU(spec.Child("cpu"), *s.CPU)
	errs = append(errs, atLeast(spec.Child("memory"), *s.Memory, "64Gi")...)
	errs = append(errs, atLeast(spec.Child("ephemeralStorage"), *s.EphemeralStorage, "500Gi")...)
	return append(errs, between(spec.Child("pods"), int64(*s.Pods), 1, maxPods)...)
}

func validateCPU(at *field.Path, cores resource.Quantity) field.ErrorList {
	if cores.Sign() <= 0 {
		return field.ErrorList{field.Invalid(at, cores.String(), "must be more than 0")}
	}
	if cores.Cmp(resource.MustParse("10k")) > 0 {
		return field.ErrorList{field.Invalid(at, cores.String(), "must be at most 10k cores; cpu has no unit such as Gi")}
	}
	return nil
}

// atLeast catches the forgotten unit: 64 is 64 bytes.
func atLeast(at *field.Path, size resource.Quantity, example string) field.ErrorList {
	if size.Cmp(resource.MustParse("128Mi")) >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, size.String(), "must be at least 128Mi; write a unit, such as "+example)}
}

func validateTopology(t *Topology, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct {
		name, value string
		length      int
	}{
		{"region", t.Region, validation.LabelValueMaxLength},
		{"zone", t.Zone, validation.LabelValueMaxLength},
		{"block", t.Block, maxPlaceName},
		{"rack", t.Rack, maxPlaceName},
		{"clique", t.Clique, maxPlaceName},
	} {
		if len(f.value) > f.length || len(validation.IsValidLabelValue(f.value)) > 0 {
			errs = append(errs, field.Invalid(at.Child(f.name), f.value, labelValueRule(f.length)))
		}
	}
	return append(errs, validateSpread(t, at)...)
}

func validateSpread(t *Topology, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct {
		name string
		per  *int32
	}{
		{"nodesPerBlock", t.NodesPerBlock},
		{"nodesPerRack", t.NodesPerRack},
		{"nodesPerClique", t.NodesPerClique},
	} {
		if f.per != nil {
			errs = append(errs, between(at.Child(f.name), int64(*f.per), 1, maxNodes)...)
		}
	}
	block, rack := t.NodesPerBlock, t.NodesPerRack
	if len(errs) == 0 && block != nil && rack != nil && *block%*rack != 0 {
		errs = append(errs, field.Invalid(at.Child("nodesPerBlock"), *block,
			fmt.Sprintf("must be a multiple of nodesPerRack (%d), or a rack would stand in two blocks", *rack)))
	}
	return errs
}

func validateBoot(b *Boot, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct {
		name string
		d    *metav1.Duration
	}{
		{"register", b.Register},
		{"ready", b.Ready},
		{"driver", b.Driver},
		{"devicePlugin", b.DevicePlugin},
		{"imagePull", b.ImagePull},
	} {
		if f.d.Duration < 0 {
			errs = append(errs, field.Invalid(at.Child(f.name), f.d.Duration.String(), "must not be negative"))
		}
	}
	return errs
}
