{# A surrogate key: the same natural key gives the same uniqueidentifier on every run. #}
{% macro guid(columns) -%}
    cast(hashbytes('MD5', concat({% for column in columns %}{{ column }}, '|'{% if not loop.last %}, {% endif %}{% endfor %})) as uniqueidentifier)
{%- endmacro %}
