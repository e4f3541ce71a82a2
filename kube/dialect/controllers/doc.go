// Package controllers reads which pods of other projects' workload controllers are one workload: those of a JobSet, of a group of a
// LeaderWorkerSet, of a job of Kubeflow's, of a Ray cluster. Their manifests say how many pods there will be and in which roles, so
// nobody has to say it again under berth.dev keys. It is a Dialect without scheduler names and queues: what it says of a pod counts
// below what the pod, its controllers and the dialect of its scheduler say. kube/cluster and diagnose/facts ask it.
//
// The facts are of these sources: sigs.k8s.io/jobset v0.12.0, sigs.k8s.io/lws v0.9.0, kubeflow/mpi-operator v0.8.2,
// kubeflow/training-operator v1.9.3, ray-project/kuberay v1.6.0. A TrainJob makes a JobSet, and Volcano's Jobs make a PodGroup, which
// are read as such.
package controllers
