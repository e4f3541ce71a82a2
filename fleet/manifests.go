package fleet

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed manifests/*.yaml
var manifestFiles embed.FS

// manifest is one object to apply: where it lives and its YAML.
type manifest struct {
	Path string // in the API server
	Body []byte
}

// prerequisites must be there for Run to have its rights; gpuStack is the DaemonSets of the GPU
// Operator and of the DRA driver with their service accounts, all in gpuNamespace.
func prerequisites() ([]manifest, error) { return readManifests("rbac.yaml") }

func gpuNamespace() ([]manifest, error) { return readManifests("namespace.yaml") }

// gpuConfigs are what the programs of the GPU stack read, which must be there before they start.
func gpuConfigs() ([]manifest, error) { return readManifests("device-plugin-config.yaml") }

// gpuServices are how the GPU stack is reached.
func gpuServices() ([]manifest, error) { return readManifests("dcgm-exporter-service.yaml") }

func gpuStack() ([]manifest, error) {
	return readManifests("driver.yaml", "toolkit.yaml", "device-plugin.yaml", "gpu-feature-discovery.yaml", "dcgm-exporter.yaml", "dra-driver.yaml", "compute-domain-driver.yaml", "mig-manager.yaml", "hami-device-plugin.yaml", "volcano-vgpu-device-plugin.yaml", "hami-dra-driver.yaml")
}

// metricsObjects let the API server find metrics.k8s.io.
func metricsObjects() ([]manifest, error) { return readManifests("metrics-api.yaml") }

// classes are those of devices, which belong to the DRA driver, and of volumes.
func classes() ([]manifest, error) { return readManifests("device-class.yaml", "storage-class.yaml") }

func readManifests(files ...string) ([]manifest, error) {
	var list []manifest
	for _, name := range files {
		text, err := fs.ReadFile(manifestFiles, path.Join("manifests", name))
		if err != nil {
			return nil, err
		}
		for _, doc := range strings.Split(string(text), "\n---\n") {
			m, err := newManifest([]byte(doc))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			list = append(list, m)
		}
	}
	return list, nil
}

// newManifest finds out where an object lives.
func newManifest(body []byte) (manifest, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct{ Namespace, Name string }
	}
	if err := yaml.Unmarshal(body, &head); err != nil {
		return manifest{}, err
	}
	root := "/apis/" + head.APIVersion
	if head.APIVersion == "v1" {
		root = "/api/v1"
	}
	if head.Metadata.Namespace != "" {
		root = path.Join(root, "namespaces", head.Metadata.Namespace)
	}
	plural, ok := plurals(head.Kind)
	if !ok || head.Metadata.Name == "" {
		return manifest{}, fmt.Errorf("no place for kind %q, name %q", head.Kind, head.Metadata.Name)
	}
	return manifest{Path: path.Join(root, plural, head.Metadata.Name), Body: body}, nil
}

// plurals names the resource of each kind that is shipped.
func plurals(kind string) (string, bool) {
	switch kind {
	case "APIService", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet", "Namespace", "Service", "ServiceAccount":
		return strings.ToLower(kind) + "s", true
	case "DeviceClass", "StorageClass":
		return strings.ToLower(kind) + "es", true
	}
	return "", false
}
