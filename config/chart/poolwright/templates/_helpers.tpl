{{/* The label that every object has, and those of the controller's pods. */}}
{{- define "poolwright.partOf" -}}
app.kubernetes.io/part-of: poolwright
{{- end }}

{{- define "poolwright.name" -}}
app.kubernetes.io/name: poolwright
{{- end }}

{{/* The image: a digest counts more than a tag. */}}
{{- define "poolwright.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{ .Values.image.repository }}:{{ $tag }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* GOMEMLIMIT in MiB: by the size of the cluster, or as it is given. */}}
{{- define "poolwright.goMemLimit" -}}
{{- $bySize := dict "Small" 768 "Medium" 1843 "Large" 4096 -}}
{{ .Values.resources.goMemLimitMiB | default (get $bySize .Values.resources.clusterSize) | int }}
{{- end }}

{{/* The container's limit in MiB: GOMEMLIMIT, two child processes of 672 MiB, 384 MiB that neither
     counts, and the rest up to a multiple of 64. */}}
{{- define "poolwright.memoryLimit" -}}
{{- $least := add (include "poolwright.goMemLimit" . | int) (mul 2 672) 384 -}}
{{ mul 64 (div (add $least 63) 64) }}
{{- end }}

{{/* What the container requests: by the size of the cluster, with what is given in its place. */}}
{{- define "poolwright.requests" -}}
{{- $bySize := dict
      "Small" (dict "cpu" "250m" "memory" "384Mi")
      "Medium" (dict "cpu" "500m" "memory" "512Mi")
      "Large" (dict "cpu" "2" "memory" "2Gi") -}}
{{- $requests := get $bySize .Values.resources.clusterSize -}}
{{ toYaml (merge dict .Values.resources.requests $requests) }}
{{- end }}

{{/* The objects of a file in files/rbac, in the release's namespace where they are in the default one. */}}
{{- define "poolwright.rbac" -}}
{{- range $document := regexSplit "(?m)^---$" (.root.Files.Get (printf "files/rbac/%s.yaml" .file)) -1 }}
{{- $object := fromYaml $document }}
{{- $_ := set $object.metadata "labels" (dict "app.kubernetes.io/part-of" "poolwright") }}
{{- if eq (get $object.metadata "namespace" | default "") "poolwright-system" }}
{{- $_ := set $object.metadata "namespace" $.root.Release.Namespace }}
{{- end }}
{{- range $subject := (get $object "subjects" | default list) }}
{{- $_ := set $subject "namespace" $.root.Release.Namespace }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
