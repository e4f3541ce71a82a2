package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils/dashboardclient"
	utiltypes "github.com/ray-project/kuberay/ray-operator/controllers/ray/utils/types"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// dashboards simulates the dashboard of every Ray cluster, from what the cluster's pods are like:
//
//   - a job that a Job submits is as that Job is;
//   - a job that is submitted over HTTP runs as long as sim.berth.dev/run of its RayJob says, or without it until it is stopped;
//   - an application of Serve runs while the head of its cluster is ready.
type dashboards struct {
	mu        sync.Mutex
	submitted map[string]submission // by job id
	serves    map[types.UID][]app   // by RayCluster
}

// runKey is the annotation that says how long a simulated program works (docs/workloads.md).
const runKey = "sim.berth.dev/run"

// submission is a job that was submitted over HTTP.
type submission struct {
	at      time.Time
	run     time.Duration // 0: until it is stopped
	stopped bool
}

// app is an application as a Serve config has it.
type app struct {
	Name        string `json:"name"`
	Deployments []struct {
		Name string `json:"name"`
	} `json:"deployments"`
}

func (s *dashboards) GetDashboardClient(_ context.Context, m manager.Manager) func(*rayv1.RayCluster, string) (dashboardclient.RayDashboardClientInterface, error) {
	return func(c *rayv1.RayCluster, _ string) (dashboardclient.RayDashboardClientInterface, error) {
		return &dashboard{all: s, client: m.GetClient(), cluster: c}, nil
	}
}

func (*dashboards) GetHttpProxyClient(manager.Manager) func(string, string, string, int) utils.RayHttpProxyClientInterface {
	return func(string, string, string, int) utils.RayHttpProxyClientInterface { return proxy{} }
}

// proxy is that of Serve on a head, which is asked only once the head runs.
type proxy struct{}

func (proxy) CheckProxyActorHealth(context.Context) error { return nil }

// dashboard answers for one cluster.
type dashboard struct {
	all     *dashboards
	client  client.Client
	cluster *rayv1.RayCluster
}

func (d *dashboard) GetJobInfo(ctx context.Context, id string) (*utiltypes.RayJobInfo, error) {
	if info := d.all.info(id, time.Now()); info != nil {
		return info, nil
	}
	out := &utiltypes.RayJobInfo{SubmissionId: id, JobStatus: rayv1.JobStatusPending}
	owner, err := d.owner(ctx, id)
	if err != nil || owner == nil {
		return out, err
	}
	switch owner.Spec.SubmissionMode {
	case rayv1.HTTPMode:
		return nil, apierrors.NewBadRequest("Job " + id + " does not exist on the cluster") // KubeRay submits it then
	case rayv1.SidecarMode:
		out.JobStatus, err = d.besideHead(ctx)
		return out, err
	}
	var j batchv1.Job
	if err := d.client.Get(ctx, client.ObjectKeyFromObject(owner), &j); apierrors.IsNotFound(err) {
		return out, nil
	} else if err != nil {
		return nil, err
	}
	if j.Status.Ready != nil && *j.Status.Ready > 0 {
		out.JobStatus = rayv1.JobStatusRunning
	}
	for _, c := range j.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			out.JobStatus = rayv1.JobStatusSucceeded
		case c.Type == batchv1.JobFailed:
			out.JobStatus = rayv1.JobStatusFailed
		}
	}
	return out, nil
}

// besideHead is how a job is that a container in the head's pod submits.
func (d *dashboard) besideHead(ctx context.Context) (rayv1.JobStatus, error) {
	pods, err := d.heads(ctx)
	for i := range pods {
		for _, c := range pods[i].Status.ContainerStatuses {
			switch {
			case c.Name != utils.SubmitterContainerName:
			case c.State.Terminated != nil && c.State.Terminated.ExitCode == 0:
				return rayv1.JobStatusSucceeded, nil
			case c.State.Terminated != nil:
				return rayv1.JobStatusFailed, nil
			case c.State.Running != nil:
				return rayv1.JobStatusRunning, nil
			}
		}
	}
	return rayv1.JobStatusPending, err
}

// owner is the RayJob with the job, nil for none.
func (d *dashboard) owner(ctx context.Context, id string) (*rayv1.RayJob, error) {
	var jobs rayv1.RayJobList
	if err := d.client.List(ctx, &jobs, client.InNamespace(d.cluster.Namespace)); err != nil {
		return nil, err
	}
	for i := range jobs.Items {
		if jobs.Items[i].Status.JobId == id {
			return &jobs.Items[i], nil
		}
	}
	return nil, nil
}

// info is how a job is that was submitted over HTTP, nil for another.
func (s *dashboards) info(id string, now time.Time) *utiltypes.RayJobInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	job, ok := s.submitted[id]
	if !ok {
		return nil
	}
	out := &utiltypes.RayJobInfo{SubmissionId: id, JobStatus: rayv1.JobStatusRunning, StartTime: uint64(job.at.UnixMilli())}
	switch {
	case job.stopped:
		out.JobStatus = rayv1.JobStatusStopped
	case job.run > 0 && now.Sub(job.at) >= job.run:
		out.JobStatus, out.EndTime = rayv1.JobStatusSucceeded, uint64(job.at.Add(job.run).UnixMilli())
	}
	return out
}

func (d *dashboard) SubmitJob(_ context.Context, j *rayv1.RayJob) (string, error) {
	run, err := time.ParseDuration(j.Annotations[runKey])
	if err != nil && j.Annotations[runKey] != "" {
		return "", fmt.Errorf("annotation %s: %w", runKey, err)
	}
	d.all.mu.Lock()
	defer d.all.mu.Unlock()
	if d.all.submitted == nil {
		d.all.submitted = make(map[string]submission)
	}
	d.all.submitted[j.Status.JobId] = submission{at: time.Now(), run: run}
	return j.Status.JobId, nil
}

func (d *dashboard) StopJob(_ context.Context, id string) error {
	d.all.mu.Lock()
	defer d.all.mu.Unlock()
	if job, ok := d.all.submitted[id]; ok {
		job.stopped = true
		d.all.submitted[id] = job
	}
	return nil
}

func (d *dashboard) DeleteJob(_ context.Context, id string) error {
	d.all.mu.Lock()
	defer d.all.mu.Unlock()
	delete(d.all.submitted, id)
	return nil
}

// UpdateDeployments takes the config of Serve's applications.
func (d *dashboard) UpdateDeployments(_ context.Context, config []byte) error {
	var read struct {
		Applications []app `json:"applications"`
	}
	if err := json.Unmarshal(config, &read); err != nil {
		return fmt.Errorf("read the Serve config: %w", err)
	}
	d.all.mu.Lock()
	defer d.all.mu.Unlock()
	if d.all.serves == nil {
		d.all.serves = make(map[types.UID][]app)
	}
	d.all.serves[d.cluster.UID] = read.Applications
	return nil
}

func (d *dashboard) GetMultiApplicationStatus(ctx context.Context) (map[string]*utiltypes.ServeApplicationStatus, error) {
	ready, err := d.headReady(ctx)
	if err != nil {
		return nil, err
	}
	state, of := rayv1.ApplicationStatusEnum.DEPLOYING, rayv1.DeploymentStatusEnum.UPDATING
	if ready {
		state, of = rayv1.ApplicationStatusEnum.RUNNING, rayv1.DeploymentStatusEnum.HEALTHY
	}
	d.all.mu.Lock()
	defer d.all.mu.Unlock()
	out := make(map[string]*utiltypes.ServeApplicationStatus)
	for _, a := range d.all.serves[d.cluster.UID] {
		s := &utiltypes.ServeApplicationStatus{Name: a.Name, Status: state, Deployments: make(map[string]utiltypes.ServeDeploymentStatus)}
		for _, deployment := range a.Deployments {
			s.Deployments[deployment.Name] = utiltypes.ServeDeploymentStatus{Name: deployment.Name, Status: of}
		}
		out[a.Name] = s
	}
	return out, nil
}

func (d *dashboard) headReady(ctx context.Context) (bool, error) {
	pods, err := d.heads(ctx)
	for i := range pods {
		for _, c := range pods[i].Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return true, nil
			}
		}
	}
	return false, err
}

func (d *dashboard) heads(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := d.client.List(ctx, &pods, client.InNamespace(d.cluster.Namespace), client.MatchingLabels{
		utils.RayClusterLabelKey: d.cluster.Name, utils.RayNodeTypeLabelKey: string(rayv1.HeadNode),
	})
	return pods.Items, err
}

// errNotAsked is the answer to what no controller asks.
var errNotAsked = errors.New("the simulated dashboard does not answer this")

func (*dashboard) GetServeDetails(context.Context) (*utiltypes.ServeDetails, error) {
	return nil, errNotAsked
}
func (*dashboard) ListJobs(context.Context) (*[]utiltypes.RayJobInfo, error) { return nil, errNotAsked }
func (*dashboard) GetJobLog(context.Context, string) (*string, error)        { return nil, errNotAsked }
func (*dashboard) SubmitJobReq(context.Context, *utiltypes.RayJobRequest) (string, error) {
	return "", errNotAsked
}
