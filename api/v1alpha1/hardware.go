package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GPU is a group of like GPUs in one node.
type GPU struct {
	// Model by any of its names: H100-SXM5-80GB, h100, "NVIDIA H100 80GB HBM3" or
	// NVIDIA-H100-80GB-HBM3. A model Berth does not know needs memory.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9 ._-]*[A-Za-z0-9])?$`
	Model string `json:"model"`
	// Count in each node.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Count int32 `json:"count"`
	// Memory of each. Default: as the model has it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('128Mi')) >= 0",message="must be at least 128Mi; write a unit, such as 80Gi"
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// NVLink is a layout of the links inside one node. Links never join two models.
// +kubebuilder:validation:Enum=auto;none;pairs;full
type NVLink string

const (
	NVLinkAuto  NVLink = "auto"
	NVLinkNone  NVLink = "none"
	NVLinkPairs NVLink = "pairs"
	NVLinkFull  NVLink = "full"
)

// Driver is the GPU driver of a node.
type Driver struct {
	// Version of the driver. Default: 580.95.05, or a release that goes with cuda.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]{3}\.[0-9]{1,3}(\.[0-9]{1,3})?$`
	Version string `json:"version,omitempty"`
	// CUDA is the newest CUDA the driver runs, such as "13.0" (quoted). Default: what the
	// driver's branch supports.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]{1,2}\.[0-9]{1,2}$`
	CUDA string `json:"cuda,omitempty"`
	// Preinstalled means that the machine image has the driver, and no driver pod installs it.
	// +optional
	Preinstalled bool `json:"preinstalled,omitempty"`
}

// MIG is how the GPUs of a node are cut into instances, and how these are offered.
type MIG struct {
	// Strategy is how the device plugin offers MIG devices: single (default; all nodes' GPUs are cut
	// alike, and nvidia.com/gpu counts MIG devices), mixed (each profile is a resource of its own, such as
	// nvidia.com/mig-1g.10gb) or none (MIG devices are not offered). With advertise: dra it is dynamic: every
	// instance that a GPU could be cut into is a device, and claims cut the GPUs.
	// +optional
	Strategy MIGStrategy `json:"strategy,omitempty"`
	// Config is the name of the configuration that the MIG manager gives to nodes of the pool: one of
	// mig-parted's (all-disabled, all-1g.10gb, all-balanced, ...) or of the ConfigMap mig-parted-config in the
	// namespace gpu-operator. It is the node's label nvidia.com/mig.config. Default: all-disabled. With the
	// strategy dynamic there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`
	Config string `json:"config,omitempty"`
}

// MIGStrategy is a way to offer MIG devices.
// +kubebuilder:validation:Enum=none;single;mixed;dynamic
type MIGStrategy string

const (
	MIGStrategyNone    MIGStrategy = "none"
	MIGStrategySingle  MIGStrategy = "single"
	MIGStrategyMixed   MIGStrategy = "mixed"
	MIGStrategyDynamic MIGStrategy = "dynamic"
)

// Advertise is a way for GPUs to reach the scheduler.
// +kubebuilder:validation:Enum=device-plugin;dra
type Advertise string

const (
	AdvertiseDevicePlugin Advertise = "device-plugin"
	AdvertiseDRA          Advertise = "dra"
)

// Sharing is who gives pods parts of GPUs, with limits that are enforced.
// +kubebuilder:validation:Enum=hami;volcano;berth
type Sharing string

const (
	SharingHAMi    Sharing = "hami"
	SharingVolcano Sharing = "volcano"
	SharingBerth   Sharing = "berth"
)

// GPUStack is who installs the GPU software.
// +kubebuilder:validation:Enum=operator;none
type GPUStack string

const (
	GPUStackOperator GPUStack = "operator"
	GPUStackNone     GPUStack = "none"
)

// Boot is how long the steps of a cold start take, one after the other, in simulated time:
// at --speed 10 a minute here passes in six seconds. A warm fleet skips them.
type Boot struct {
	// Register is from the launch until the Node object exists. Default: 90s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`
	Register *metav1.Duration `json:"register,omitempty"`
	// Ready is from there until the node is Ready (CNI, kubelet). Default: 25s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`
	Ready *metav1.Duration `json:"ready,omitempty"`
	// Driver is how long the driver pod builds and loads the driver. Default: 3m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`
	Driver *metav1.Duration `json:"driver,omitempty"`
	// DevicePlugin is from a driver that works until the GPUs are advertised. Default: 20s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`
	DevicePlugin *metav1.Duration `json:"devicePlugin,omitempty"`
	// ImagePull is the first pull of any image on the node. Default: 15s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`
	ImagePull *metav1.Duration `json:"imagePull,omitempty"`
}
