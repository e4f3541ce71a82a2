package cloud

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// awsStates are the states of `aws ec2 describe-capacity-reservations`.
var awsStates = map[string]v1alpha1.ReservationState{
	"active": v1alpha1.ReservationActive, "expired": v1alpha1.ReservationExpired, "cancelled": v1alpha1.ReservationExpired, "pending": v1alpha1.ReservationScheduled,
	"scheduled": v1alpha1.ReservationScheduled, "assessing": v1alpha1.ReservationScheduled, "delayed": v1alpha1.ReservationScheduled, "payment-pending": v1alpha1.ReservationScheduled,
	"payment-failed": v1alpha1.ReservationFailed, "failed": v1alpha1.ReservationFailed, "unsupported": v1alpha1.ReservationFailed, "unavailable": v1alpha1.ReservationFailed,
	"cancelling": v1alpha1.ReservationExpiring,
}

// readAWS reads a capacity block or an on-demand capacity reservation.
func readAWS(f *fields) (r v1alpha1.Reservation, err error) {
	r.Spec.ID = f.text("CapacityReservationId")
	r.Name = objectName(r.Spec.ID)
	if r.Spec.ID == "" {
		return readBlock(f)
	}
	r.Spec.InstanceType, r.Spec.Zone = f.text("InstanceType"), f.text("AvailabilityZone")
	r.Spec.Start, r.Spec.End = f.time("StartDate"), f.time("EndDate")
	if f.text("InstanceMatchCriteria") == "open" {
		r.Spec.Match = v1alpha1.MatchOpen
	} else {
		r.Spec.Match = v1alpha1.MatchTargeted
	}
	total, ok := f.number("TotalInstanceCount")
	if !ok {
		err = errors.New("it has no TotalInstanceCount")
	}
	if left, ok := f.number("AvailableInstanceCount"); ok && left >= 0 && left <= total {
		r.Status.Available = pointer(int32(left))
	}
	r.Status.State = stateIn(f, "State", awsStates)
	if err == nil {
		err = gpusOf(&r, "", 0)
	}
	return checked(r, total, err)
}

// readBlock says of what is printed of a block, or of the offer of one, why it is no reservation.
func readBlock(f *fields) (r v1alpha1.Reservation, err error) {
	switch offer, block := f.text("CapacityBlockOfferingId"), f.text("CapacityBlockId"); {
	case offer != "":
		r.Name, err = objectName(offer), errors.New("it is an offer that nobody has bought")
	case block != "":
		var ids []string
		list, _ := f.at("CapacityReservationIds").([]any)
		for _, id := range list {
			ids = append(ids, fmt.Sprint(id))
		}
		r.Name, err = objectName(block), fmt.Errorf("it is a block, which does not say what it has: import aws ec2 describe-capacity-reservations, for %s", strings.Join(ids, ", "))
	default:
		err = errors.New("it has no CapacityReservationId")
	}
	return r, err
}

// readGCP reads a reservation, or a future reservation, which calendar mode makes, too.
func readGCP(f *fields) (v1alpha1.Reservation, error) {
	if f.has("specificSkuProperties") || f.has("timeWindow") {
		return readFuture(f)
	}
	r, err := named(f)
	at := "specificReservation."
	r.Spec.InstanceType = last(f.text(at + "instanceProperties.machineType"))
	total, ok := f.number(at + "count")
	if !ok {
		err = errors.Join(err, errors.New("it has no specificReservation.count"))
	}
	if used, ok := f.number(at + "inUseCount"); ok && used >= 0 && used <= total {
		r.Status.Available = pointer(int32(min(total-used, 100_000)))
	}
	r.Spec.Match = v1alpha1.MatchOpen
	if required, _ := f.at("specificReservationRequired").(bool); required {
		r.Spec.Match = v1alpha1.MatchTargeted
	}
	r.Spec.Start = f.time("creationTimestamp") // it is paid for since then
	r.Spec.End = f.time("deleteAtTime")        // of those that a calendar or a future reservation made, too
	if r.Spec.End == nil {
		r.Spec.End = f.after(r.Spec.Start, "deleteAfterDuration.seconds")
	}
	r.Status.State = stateIn(f, "status", gcpStates)
	model, count := accelerators(f, at+"instanceProperties.guestAccelerators")
	if err == nil {
		err = gpusOf(&r, model, count)
	}
	return checked(r, total, err)
}

// gcpStates are the states of `gcloud compute reservations list`.
var gcpStates = map[string]v1alpha1.ReservationState{
	"INVALID": v1alpha1.ReservationFailed, "READY": v1alpha1.ReservationActive, "UPDATING": v1alpha1.ReservationActive,
	"CREATING": v1alpha1.ReservationScheduled, "DELETING": v1alpha1.ReservationExpired,
}

// readFuture reads a future reservation. One that is fulfilled is left out: the reservations that came of it are printed themselves.
func readFuture(f *fields) (v1alpha1.Reservation, error) {
	r, err := named(f)
	at := "specificSkuProperties."
	r.Spec.InstanceType, r.Spec.Match = last(f.text(at+"instanceProperties.machineType")), v1alpha1.MatchTargeted
	r.Spec.Start, r.Spec.End = f.time("timeWindow.startTime"), f.time("timeWindow.endTime")
	if r.Spec.End == nil {
		r.Spec.End = f.after(r.Spec.Start, "timeWindow.duration.seconds")
	}
	total, ok := f.number(at + "totalCount")
	if !ok {
		err = errors.Join(err, errors.New("it has no specificSkuProperties.totalCount"))
	}
	switch f.text("status.procurementStatus") {
	case "FULFILLED":
		err = errors.New("it is fulfilled: import the reservations that came of it")
	case "DRAFTING":
		err = errors.New("it is a draft that nobody has submitted")
	}
	r.Status.State = cmp.Or(stateIn(f, "status.procurementStatus", futureStates), v1alpha1.ReservationScheduled)
	model, count := accelerators(f, at+"instanceProperties.guestAccelerators")
	if err == nil {
		err = gpusOf(&r, model, count)
	}
	return checked(r, total, err)
}

// futureStates are the states of `gcloud compute future-reservations list`. One that is being procured or provided is for later still: what
// came of it is printed as reservations.
var futureStates = map[string]v1alpha1.ReservationState{
	"APPROVED": v1alpha1.ReservationScheduled, "COMMITTED": v1alpha1.ReservationScheduled, "PENDING_APPROVAL": v1alpha1.ReservationScheduled,
	"PENDING_AMENDMENT_APPROVAL": v1alpha1.ReservationScheduled, "PROCURING": v1alpha1.ReservationScheduled, "PROVISIONING": v1alpha1.ReservationScheduled,
	"CANCELLED": v1alpha1.ReservationFailed, "DECLINED": v1alpha1.ReservationFailed, "FAILED": v1alpha1.ReservationFailed,
	"FAILED_PARTIALLY_FULFILLED": v1alpha1.ReservationFailed,
}

// longest is how many seconds a reservation lasts at most: ten years.
const longest = 10 * 366 * 24 * 3600

// after is the time so many seconds after the start; nil: neither is known.
func (f *fields) after(start *metav1.Time, path string) *metav1.Time {
	seconds, ok := f.number(path)
	if !ok || start == nil || seconds <= 0 || seconds >= longest {
		return nil
	}
	return pointer(metav1.NewTime(start.Add(time.Duration(seconds) * time.Second)))
}

// named reads what all of Google's reservations have. They are zonal, so their zone is in their name.
func named(f *fields) (r v1alpha1.Reservation, err error) {
	name := f.text("name")
	r.Spec.Zone = last(f.text("zone"))
	r.Name = objectName(name + "." + r.Spec.Zone)
	r.Spec.ID = f.text("selfLink")
	if _, path, ok := strings.Cut(r.Spec.ID, "/projects/"); ok {
		r.Spec.ID = "projects/" + path
	}
	if r.Spec.ID == "" {
		r.Spec.ID = name
	}
	if name == "" {
		err = errors.New("it has no name")
	}
	return r, err
}

// accelerators are GPUs that are added to machines whose type has none.
func accelerators(f *fields, path string) (model string, count int64) {
	list, _ := f.at(path).([]any)
	for _, item := range list {
		g := &fields{tree: map[string]any{"g": item}, used: make(map[string]bool)}
		if n, ok := g.number("g.acceleratorCount"); ok {
			model, count = strings.TrimPrefix(last(g.text("g.acceleratorType")), "nvidia-"), count+n
		}
	}
	return model, count
}

// readAzure reads a capacity reservation of a group. AKS names zones LOCATION-NUMBER.
func readAzure(f *fields) (r v1alpha1.Reservation, err error) {
	f.lift("properties") // the command line prints them beside the name, the API below
	r.Spec.ID = f.text("id")
	name, group := f.text("name"), ""
	parts := strings.Split(r.Spec.ID, "/")
	for i := range len(parts) - 1 {
		if strings.EqualFold(parts[i], "capacityReservationGroups") {
			group = parts[i+1]
		}
	}
	r.Name = objectName(name)
	if group != "" {
		r.Name = objectName(group + "." + name)
	}
	r.Spec.InstanceType, r.Spec.Match = f.text("sku.name"), v1alpha1.MatchTargeted
	zones, _ := f.at("zones").([]any)
	if location := f.text("location"); len(zones) > 0 && location != "" {
		number, _ := zones[0].(string)
		r.Spec.Zone = location + "-" + number
	}
	r.Spec.Start, r.Spec.End = f.time("timeCreated"), f.time("scheduleProfile.end")
	if start := f.time("scheduleProfile.start"); start != nil { // of a block, or of one that is for later
		r.Spec.Start = start
	}
	total, ok := f.number("sku.capacity")
	if !ok {
		err = errors.New("it has no sku.capacity; a group alone does not say what it has: import az capacity reservation list")
	}
	const stateOf = "instanceView.reservationStateInfo.reservationState"
	planned := f.text(stateOf)
	if n, ok := f.number("instanceView.utilizationInfo.currentCapacity"); ok && planned == "PartiallyFulfilled" {
		total = min(total, n) // what was delivered of it
	}
	if list, ok := f.at("instanceView.utilizationInfo.virtualMachinesAllocated").([]any); ok && int64(len(list)) <= total {
		r.Status.Available = pointer(int32(total) - int32(len(list)))
	}
	r.Status.State = cmp.Or(stateIn(f, "provisioningState", azureProvided), v1alpha1.ReservationActive)
	if state := stateIn(f, stateOf, azureStates); state != "" && r.Status.State == v1alpha1.ReservationActive {
		r.Status.State = state
	}
	if err == nil {
		err = gpusOf(&r, "", 0)
	}
	return checked(r, total, err)
}

// azureProvided are what `az capacity reservation list` says of the making of a reservation. One that is changed is there meanwhile.
var azureProvided = map[string]v1alpha1.ReservationState{
	"Succeeded": v1alpha1.ReservationActive, "Updating": v1alpha1.ReservationActive, "Creating": v1alpha1.ReservationScheduled,
	"Deleting": v1alpha1.ReservationExpired, "Failed": v1alpha1.ReservationFailed, "Canceled": v1alpha1.ReservationFailed,
}

// azureStates are the states of reservations for later, in their instance view.
var azureStates = map[string]v1alpha1.ReservationState{
	"Pending": v1alpha1.ReservationScheduled, "Approved": v1alpha1.ReservationScheduled, "Committed": v1alpha1.ReservationScheduled,
	"Live": v1alpha1.ReservationActive, "PartiallyFulfilled": v1alpha1.ReservationActive,
	"Declined": v1alpha1.ReservationFailed, "FulfillmentFailed": v1alpha1.ReservationFailed,
}

func pointer[T any](v T) *T { return &v }
