// Package store keeps a history in ConfigMaps: one with the State of the leader, which it replaces, and archives, to which
// it appends. There are at most eight: the State has 900 KiB at most, an archive half a MiB; when the archives are full, the oldest
// is replaced.
//
// It refuses to write what another has changed meanwhile. What is archived is written before the State without it, so that a
// process that ends in between loses nothing, and a Reader has it once: package history merges by identity. Start
// reading at Store.
package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/recorder"
)

const (
	// stateName is the ConfigMap with the State; recordsPrefix and hoursPrefix start the names of archives, which end in a number.
	stateName     = "poolwright-history"
	recordsPrefix = "poolwright-history-records-"
	hoursPrefix   = "poolwright-history-hours-"
	// How many archives there are of each kind.
	recordArchives = 4
	hourArchives   = 3
	// dataKey is the only key of each.
	dataKey = "history.json.gz"
	// sequenceAnnotation counts the archives of a kind that were begun: the greatest is that to which is appended.
	sequenceAnnotation = "poolwright.dev/history-sequence"
)

// maxSequence is more than what is ever reached: a number above it is none.
const maxSequence = 1 << 30

// maxArchive is how many bytes an archive has before the next one is begun.
const maxArchive = 384 << 10

// names are those of an archive's ConfigMaps.
func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = prefix + strconv.Itoa(i)
	}
	return out
}

// Names are those of all ConfigMaps that a history is in, in the order in which they are to be read.
func Names() []string {
	return slices.Concat([]string{stateName}, names(recordsPrefix, recordArchives), names(hoursPrefix, hourArchives))
}

// Store is a history in the ConfigMaps of a namespace. Read may be called by any number of goroutines at a time, on
// every replica; Load and Save by one, on the leader.
type Store struct {
	// Kube reads ConfigMaps past every cache. It writes them only while this replica leads.
	Kube client.Client
	// Namespace has the ConfigMaps.
	Namespace string

	// state is the ConfigMap of the State as it was read or written last; nil before Load, and without a version
	// where there is none.
	state *corev1.ConfigMap
}

// Read implements history.Reader.
func (s *Store) Read(ctx context.Context) (history.History, error) {
	return Read(ctx, s.Kube, s.Namespace)
}

// Read returns the history in a namespace; without any record it is the zero History and no error. The State is read first: what is
// archived meanwhile is then in both, and not in neither.
func Read(ctx context.Context, from client.Reader, namespace string) (history.History, error) {
	var state corev1.ConfigMap
	if err := get(ctx, from, namespace, stateName, &state); err != nil {
		return history.History{}, err
	}
	archives := slices.Concat(names(recordsPrefix, recordArchives), names(hoursPrefix, hourArchives))
	found := make([]corev1.ConfigMap, len(archives))
	if state.ResourceVersion != "" {
		group, groupCtx := errgroup.WithContext(ctx)
		for i, name := range archives {
			group.Go(func() error { return get(groupCtx, from, namespace, name, &found[i]) })
		}
		if err := group.Wait(); err != nil {
			return history.History{}, err
		}
	}
	slices.SortStableFunc(found, func(a, b corev1.ConfigMap) int { return sequence(&a) - sequence(&b) })
	var contents [][]byte
	for _, c := range found {
		contents = append(contents, c.BinaryData[dataKey])
	}
	return recorder.Merge(append(contents, state.BinaryData[dataKey])...)
}

// get reads a ConfigMap; one that is not there is empty.
func get(ctx context.Context, from client.Reader, namespace, name string, into *corev1.ConfigMap) error {
	err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, name, err)
	}
	return nil
}

// get reads a ConfigMap; one that is not there is empty.
func (s *Store) get(ctx context.Context, name string, into *corev1.ConfigMap) error {
	return get(ctx, s.Kube, s.Namespace, name, into)
}

// sequence is when an archive was begun; 0 for one that is empty.
func sequence(c *corev1.ConfigMap) int {
	n, err := strconv.ParseUint(c.Annotations[sequenceAnnotation], 10, 31)
	if err != nil || n > maxSequence {
		return 0
	}
	return int(n)
}

// Load reads the State. One that cannot be decoded is an error; nothing is written over it.
func (s *Store) Load(ctx context.Context, add recorder.AddFunc) (*recorder.State, error) {
	found := &corev1.ConfigMap{}
	if err := s.get(ctx, stateName, found); err != nil {
		return nil, err
	}
	out, err := recorder.Decode(found.BinaryData[dataKey], add)
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", s.Namespace, stateName, err)
	}
	s.state = found
	return out, nil
}

// Save writes the State, after it has archived what does not change any more and is of no NodeClaim that is present. Where an
// archive cannot be written, the State is written all the same, with what was to be archived as far as it fits, and the error is that of
// the archive: what is new is worth more than what is old. A State
// that another has written since Load is an error for which IsConflict is true; it must then be loaded again. One that
// somebody has deleted is written anew.
func (s *Store) Save(ctx context.Context, state *recorder.State, present func(uid string) bool) error {
	unarchived := s.archiveAll(ctx, state, present)
	if IsConflict(unarchived) {
		return unarchived
	}
	content, err := state.Encode()
	if err != nil {
		return err
	}
	next := s.configMap(stateName, s.state)
	next.BinaryData = map[string][]byte{dataKey: content}
	err = s.write(ctx, next)
	if apierrors.IsNotFound(err) && next.ResourceVersion != "" {
		next = s.configMap(stateName, &corev1.ConfigMap{})
		next.BinaryData = map[string][]byte{dataKey: content}
		err = s.write(ctx, next)
	}
	if err != nil {
		return errors.Join(unarchived, err)
	}
	s.state = next
	state.Encoded()
	return unarchived
}

// archiveAll archives all that does not change any more.
func (s *Store) archiveAll(ctx context.Context, state *recorder.State, present func(uid string) bool) error {
	for {
		archive, err := state.Archive(present)
		if err != nil || archive == nil {
			return err
		}
		if err := s.archive(ctx, state, archive); err != nil {
			return err
		}
	}
}

// IsRefused reports whether a ConfigMap could not be written since the API server does not allow it, such as by a quota, permissions or an
// admission webhook: another try helps once a person has changed that.
func IsRefused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) }

// IsConflict reports whether another has written the State since it was loaded.
func IsConflict(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// configMap is a ConfigMap under a name, with the version of the one that it replaces.
func (s *Store) configMap(name string, before *corev1.ConfigMap) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, Name: name, ResourceVersion: before.ResourceVersion,
		Labels: Labels(),
	}}
}

// Labels are those of each ConfigMap of a history.
func Labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "poolwright", "app.kubernetes.io/component": "history"}
}

// HasLabels reports whether a ConfigMap has the labels of those that a Store writes.
func HasLabels(c *corev1.ConfigMap) bool {
	for key, value := range Labels() {
		if c.Labels[key] != value {
			return false
		}
	}
	return true
}

// write creates a ConfigMap, or replaces the one with its version.
func (s *Store) write(ctx context.Context, c *corev1.ConfigMap) error {
	var err error
	if c.ResourceVersion == "" {
		err = s.Kube.Create(ctx, c)
	} else {
		err = s.Kube.Update(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", c.Namespace, c.Name, err)
	}
	return nil
}

// archive appends both parts to the archives of their kinds. A part that is written is not written again where the other is
// refused.
func (s *Store) archive(ctx context.Context, state *recorder.State, a *recorder.Archive) error {
	records, hours := *a, *a
	records.Hours, hours.Records = nil, nil
	if a.Records != nil {
		if err := s.append(ctx, names(recordsPrefix, recordArchives), a.Records); err != nil {
			return err
		}
		state.Archived(&records)
	}
	if a.Hours != nil {
		if err := s.append(ctx, names(hoursPrefix, hourArchives), a.Hours); err != nil {
			return err
		}
		state.Archived(&hours)
	}
	return nil
}

// Bytes is how many bytes the State had when it was read or written last.
func (s *Store) Bytes() int {
	if s.state == nil {
		return 0
	}
	return len(s.state.BinaryData[dataKey])
}

// append writes content to the end of the archive that was begun last, or begins the next one in place of the oldest.
func (s *Store) append(ctx context.Context, all []string, content []byte) error {
	var last corev1.ConfigMap
	for _, name := range all {
		var found corev1.ConfigMap
		if err := s.get(ctx, name, &found); err != nil {
			return err
		}
		if sequence(&found) > sequence(&last) {
			last = found
		}
	}
	n, before := max(sequence(&last), 1), last.BinaryData[dataKey]
	if len(before)+len(content) > maxArchive && len(before) > 0 {
		n, before = n+1, nil
	}
	name := all[(n-1)%len(all)]
	if name != last.Name {
		last = corev1.ConfigMap{}
		if err := s.get(ctx, name, &last); err != nil {
			return err
		}
	}
	next := s.configMap(name, &last)
	next.Annotations = map[string]string{sequenceAnnotation: strconv.Itoa(n)}
	next.BinaryData = map[string][]byte{dataKey: slices.Concat(before, content)}
	return s.write(ctx, next)
}
