package diagnose_test

import (
	"strings"
	"testing"
)

// Work of other projects has a pod template for each role: a fix changes that of the pods which wait, in a way that their operator takes.
func TestFixesChangeTheTemplateOfTheRole(t *testing.T) {
	for name, want := range map[string][]string{
		"worker-of-pytorchjob": {"kubectl patch pytorchjobs.kubeflow.org ", `"/spec/pytorchReplicaSpecs/Worker/template/spec/nodeSelector/gpu"`, "\nkubectl delete pod "},
		"worker-of-raycluster": {"kubectl patch rayclusters.ray.io ", `"/spec/workerGroupSpecs/0/template/spec/nodeSelector/gpu"`, "\nkubectl delete pod "},
		"worker-of-lws":        {"kubectl patch leaderworkersets.leaderworkerset.x-k8s.io ", `"/spec/leaderWorkerTemplate/workerTemplate/spec/nodeSelector/gpu"`},
		"task-of-volcano":      {"kubectl get jobs.batch.volcano.sh ", `"/spec/tasks/1/template/spec/nodeSelector/gpu"`, "kubectl replace --force"},
		"job-of-jobset":        {"kubectl get jobsets.jobset.x-k8s.io ", `"/spec/replicatedJobs/1/template/spec/template/spec/nodeSelector/gpu"`, "kubectl replace --force"},
	} {
		t.Run(name, func(t *testing.T) {
			c := loadCase(t, "no-such-pool/"+name+".yaml", fixedSeed())
			got := c.diagnose(t)
			if len(got.Fixes) == 0 {
				t.Fatalf("no fix: %s", got.Summary)
			}
			for _, part := range want {
				if !strings.Contains(got.Fixes[0].Command, part) {
					t.Errorf("%s\nlacks %s", got.Fixes[0].Command, part)
				}
			}
			if all := strings.Count(got.Fixes[0].Command, "kubectl delete pod"); all > 1 {
				t.Errorf("pods that run are deleted:\n%s", got.Fixes[0].Command)
			}
		})
	}
}

// Where several roles have the same fault, each is mended, and the fix says which is which.
func TestFixesOfSeveralRoles(t *testing.T) {
	c := loadCase(t, "larger-than-any-node/both-roles.yaml", fixedSeed())
	got := c.diagnose(t)
	for _, f := range got.Fixes {
		if strings.Contains(f.Command, "/Master/") && strings.Contains(f.Command, "/Worker/") && strings.Contains(f.Edit, "for pods like") {
			return
		}
	}
	t.Errorf("fixes %+v", got.Fixes)
}
