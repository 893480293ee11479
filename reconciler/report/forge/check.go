package forge

import "context"

// CheckWriter is a Forge that may have checks, as GitHub has for Apps.
type CheckWriter interface {
	// Check shows a check beside a commit, unless it is shown already. Where the credential may write statuses only,
	// it sets the Status. Summary, titles and messages are shortened to what the forge takes.
	Check(ctx context.Context, sha string, check Check) error
}

// Check is a Status with what explains it.
type Check struct {
	Status
	// Summary is Markdown. All of it that is not our own is to be escaped before.
	Summary string
	// KeepCompleted has a completed check of the commit stay as it is: what is set is only that the same commit is planned again.
	// A status is set all the same.
	KeepCompleted bool
	// Annotations stand beside lines of the commit's files, in this order. Of more than MaxAnnotations the first are shown.
	Annotations []LineAnnotation
}

// MaxAnnotations is how many annotations one check has, MaxAnnotationTitle and MaxAnnotationMessage how many characters
// are shown of the texts of one.
const (
	MaxAnnotations       = 200
	MaxAnnotationTitle   = 255
	MaxAnnotationMessage = 2000
)

// LineAnnotation is a message beside one line of a file.
type LineAnnotation struct {
	// Path is the file's in the repository, Line at least 1.
	Path string
	Line int
	// Level is of GitHub's.
	Level AnnotationLevel
	// Title and Message are plain text.
	Title, Message string
}

// AnnotationLevel is the severity of an annotation.
type AnnotationLevel string

// The levels of annotations.
const (
	LevelNotice  AnnotationLevel = "notice"
	LevelWarning AnnotationLevel = "warning"
	LevelFailure AnnotationLevel = "failure"
)
