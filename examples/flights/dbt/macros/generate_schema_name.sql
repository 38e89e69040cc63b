{# The schemas are provisioned and enrolled beforehand: a model goes exactly where it says. #}
{% macro generate_schema_name(custom_schema_name, node) -%}
    {{ (custom_schema_name or target.schema) | trim }}
{%- endmacro %}
